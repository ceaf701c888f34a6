-- Runs rad.lua as srun's cli_filter does: arg[1] is its folder, the others are options, as on srun's command line or,
-- without dashes, of other origin, and after them or -- the step's command. Prints them afterwards.
package.path = arg[1] .. "/?.lua;" .. package.path
slurm = { SUCCESS = 0, log_info = function(format, ...) print("said " .. string.format(format, ...)) end }
function slurm_cli_pre_submit()
    local name, value = (os.getenv("SITE_SETS") or ""):match("(.+)=(.+)")
    if name then require("posix.stdlib").setenv(name, value) end
    return slurm.SUCCESS
end
require("rad").wrap()
local options, names = { type = "srun", argv = {} }, {}
local i = 1
while i < #arg do
    i = i + 1
    local name, value = arg[i]:match("^%-?%-?([%w-]+)=(.*)$")
    if arg[i]:match("^%-%-[%w-]+$") then
        name, value, i = arg[i]:sub(3), arg[i + 1], i + 1 -- a word of its own
    end
    if not name and arg[i] ~= ":" then
        for j = arg[i] == "--" and i + 1 or i, #arg do table.insert(options.argv, arg[j]) end
        break
    elseif name then
        for _, known in ipairs({ "cpus-per-gpu", "gpu-bind" }) do -- as getopt takes a part of a name
            if arg[i]:match("^%-%-") and #name > 4 and known:sub(1, #name) == name then name = known end
        end
        table.insert(names, name)
        options[name] = value
    end
end
assert(slurm_cli_pre_submit(options, 0) == slurm.SUCCESS)
for _, name in ipairs(names) do print(name .. "=" .. options[name]) end
for _, word in ipairs(options.argv) do print("runs " .. word) end
for _, name in ipairs({ "SLURM_CPUS_PER_GPU", "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_GPU", "SRUN_CPUS_PER_TASK",
    "RAD_COUNTED" }) do
    if os.getenv(name) then print("has " .. name .. "=" .. os.getenv(name)) end
end
