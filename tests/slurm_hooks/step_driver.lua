-- Runs rad.lua as srun's cli_filter does: arg[1] is its folder, the others are options. Prints those afterwards.
package.path = arg[1] .. "/?.lua;" .. package.path
slurm = { SUCCESS = 0, log_info = function(format, ...) print("said " .. string.format(format, ...)) end }
function slurm_cli_pre_submit() return slurm.SUCCESS end
require("rad").wrap()
local options = { type = "srun" }
for i = 2, #arg do
    local name, value = arg[i]:match("^([^=]+)=(.*)$")
    options[name] = value
end
assert(slurm_cli_pre_submit(options, 0) == slurm.SUCCESS)
for i = 2, #arg do
    local name = arg[i]:match("^[^=]+")
    print(name .. "=" .. options[name])
end
