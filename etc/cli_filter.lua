-- For sites that have no cli_filter.lua of their own: copy it beside slurm.conf, everywhere, and set
-- CliFilterPlugins=lua. A site that has one adds the line with `require` to it, before its final `return`.

function slurm_cli_setup_defaults(options, early_pass)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    return slurm.SUCCESS
end

local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end

return slurm.SUCCESS
