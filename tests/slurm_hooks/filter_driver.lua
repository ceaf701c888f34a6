-- Runs rad.lua as sbatch's cli_filter does: arg[1] is its folder, arg[2] the script, arg[3] the command, arg[4] the value
-- of --test-only, arg[5] that of --core-spec, arg[6] the job's user, arg[7] whoever runs the command. Where the script is
-- named -, it is WRAP or has come on standard input. Prints what the job is given.
package.path = arg[1] .. "/?.lua;" .. package.path
slurm = { SUCCESS = 0, log_info = function(form, ...) print("said " .. string.format(form, ...)) end }
function slurm_cli_pre_submit() return slurm.SUCCESS end
require("rad").wrap()
if arg[2] == "-" then
    arg[2] = nil
    io.stdin:read("*a")
end
local options = { type = arg[3], argv = { arg[2] }, ["test-only"] = arg[4], ["core-spec"] = arg[5], uid = arg[6] }
options.wrap = os.getenv("WRAP")
if arg[7] then require("posix.unistd").geteuid = function() return tonumber(arg[7]) end end
for part = 1, tonumber(os.getenv("PARTS") or 1) do print("result " .. slurm_cli_pre_submit(options, part - 1)) end
local names = { "RAD_SUMMARY" }
for piece = 1, 16 do names[#names + 1] = "RAD_SUMMARY_" .. piece end
for _, name in ipairs({ "RAD_SHARE", "RAD_TEST_ONLY", "RAD_CORE_SPEC" }) do names[#names + 1] = name end
for _, name in ipairs(names) do
    local value = os.getenv(name)
    if value then print(name .. "=" .. value) end
end
for _, name in ipairs({ "rad_script", "rad_step", "posix.fcntl" }) do
    if package.loaded[name] then print("loads " .. name) end
end
