-- For cli_filter.lua where a step starts in a job that RAD shares. Such a job holds no GPU but shares of one: a step of it
-- that asks for that GPU takes what the job has.

-- Whether an amount of GPUs, perhaps behind their type, is one.
local function is_one(amount)
    if type(amount) ~= "string" then return false end
    local number = amount:gsub("=", ":"):gsub("^[%a_][%w_.-]*:?", "")
    return number == "" or number:match("^0*1$") ~= nil
end

return function(options)
    for _, name in ipairs({ "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task" }) do
        local of_each = name == "gpus-per-task" and (options.ntasks or "1") ~= "1" -- several tasks ask for several
        if is_one(options[name]) and not of_each then options[name] = "" end
    end
    if options["mem-per-gpu"] then options["mem-per-gpu"] = "0" end
    local gres = type(options.gres) == "string" and options.gres:gsub("gres[:/]", "") or ""
    -- A step cannot ask for all; this gives it the GPU, and the job's cap holds for each of its steps.
    if gres == "gpu" or is_one(gres:match("^gpu[:=](.+)$")) then options.gres = "mps:1" end
    -- By these TaskProlog knows a job of RAD's, also where a step is to get nothing of its environment.
    local export = type(options.export) == "string" and options.export or ""
    if export ~= "" and not ("," .. export:upper() .. ","):find(",ALL,", 1, true) then
        local names = "RAD_SHARE,RAD_THREAD_PERCENTAGE"
        local nothing = export:upper() == "NONE" or export:upper() == "NIL"
        options.export = nothing and names or export .. "," .. names
    end
    -- These cannot be taken away here, and Slurm's own words about them are of GRES that the user never asked for.
    for name, instead in pairs({ ["cpus-per-gpu"] = "cpus-per-task", ["ntasks-per-gpu"] = "ntasks" }) do
        local amount = tostring(options[name] or ""):match("^[1-9]%d?%d?%d?$")
        if amount then
            slurm.log_info("%s", string.format("rad: this job holds shares of a GPU, and Slurm starts no step of it with "
                .. "--%s: write --%s=%s instead", name, instead, amount))
        end
    end
end
