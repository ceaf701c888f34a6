-- For sites that have no job_submit.lua of their own: copy it beside slurm.conf and set JobSubmitPlugins=lua.
-- A site that has one adds the line with `require` to it, before its final `return`.

function slurm_job_submit(job_desc, part_list, submit_uid)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end

return slurm.SUCCESS
