-- Runs rad.lua outside slurmctld: arg[1] is its folder, arg[2] a Lua file that returns the settings and the jobs.
-- Prints what would have been done, one fact a line.
local plan = dofile(arg[2])
package.path = arg[1] .. "/?.lua;" .. package.path
slurm = {
    SUCCESS = 0,
    SPREAD_JOB = 256,
    log_user = function(form, ...) print("user " .. string.format(form, ...):gsub("\n", "\\n")) end,
    log_info = function(form, ...) print("log " .. string.format(form, ...):gsub("\n", "\\n")) end,
}
-- Fields that Slurm reads back as numbers, however they were set.
local NUMERIC = { cpus_per_task = true, min_mem_per_node = true, min_cpus = true }
function slurm_job_submit() return slurm.SUCCESS end
local has_socket, socket = pcall(require, "socket")
local clock, ahead, each_look = has_socket and socket.gettime, 0, 0
if has_socket then
    socket.gettime = function()
        ahead = ahead + each_look
        return clock() + ahead
    end
end
local rad = require("rad")
rad.wrap(plan.settings)
for _, job in ipairs(plan.jobs) do
    if job.script_file then
        local file = assert(io.open(job.script_file, "rb"))
        job.script = file:read("*a")
        file:close()
    end
    ahead, each_look = tonumber(job.clock_ahead or ahead), tonumber(job.each_look or 0)
    job.bitflags, job.time_limit = tonumber(job.bitflags), tonumber(job.limit)
    job.ntasks_per_core = tonumber(job.ntasks_per_core)
    job.user_id, job.user_name = tonumber(job.user_id or 1000) + 0.0, job.user_name or "alice"
    local set, refuses_at = {}, tonumber(job.refuses_at)
    local proxy = setmetatable({}, {
        __index = function(_, name) return job[name] end,
        __newindex = function(_, name, value)
            if job.refuses == name then error("cannot set " .. name) end
            if refuses_at == #set + 1 then
                refuses_at = nil -- what was there is put back
                error("cannot set " .. name)
            end
            job[name] = NUMERIC[name] and tonumber(value) or value
            set[#set + 1] = name .. "=" .. tostring(value)
        end,
    })
    local begin = os.clock()
    local result = slurm_job_submit(proxy, { cpu = { flag_default = 0 }, gpu = { flag_default = 1 } }, 1000)
    table.sort(set)
    print("result " .. tostring(result) .. " " .. table.concat(set, " "))
    for name, value in pairs(job.environment or {}) do print("env " .. name .. "=" .. value) end
end
