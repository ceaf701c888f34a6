-- RAD's side of job_submit.lua and cli_filter.lua. Lua 5.1 to 5.4.
--
-- A site's own job_submit.lua or cli_filter.lua gains one line, before its final `return`:
--     local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end
-- The site's own functions run first and keep the last word on what they refuse.
--
-- Every sbatch loads this file: it holds what all of them need. rad_submit.lua is slurmctld's, rad_summary.lua is
-- loaded where a script names a summary.

local M = {
    socket = "/run/rad/radd.sock",
    deadline = 0.050,            -- seconds for the whole exchange
    breaker_failures = 3,        -- failures in a row that open the breaker
    breaker_seconds = 10,        -- how long it stays open: no job waits meanwhile
    longest_block = 786432,      -- bytes of the leading comment block that are read
    longest_request = 1000000,   -- bytes that radd is sent: less than its radd.max_request_kib
    longest_answer = 262144,
    longest_summary = 524288,    -- bytes of a summary file that cli_filter.lua hands on
    piece = 98304,               -- the kernel takes 128 KiB for one string of the environment
    max_pieces = 16,
}

local HASH, NEWLINE = 35, 10
local MAX_STEPS = 10000          -- of a search in a script: 4 MB made for it must not hold slurmctld up
M.max_steps = MAX_STEPS

-- The leading comment block: up to the first line that is neither blank nor a comment. nil if it is too long.
-- Lines that begin with # are passed over in C, so that a long block costs little.
function M.leading_block(script)
    local longest = M.longest_block
    local head = #script > longest and script:sub(1, longest) or script
    local position = 1
    for _ = 1, MAX_STEPS do
        local text = head:find("%S", position)
        if text == nil then return head == script and script or nil end
        local at_line_start = text == 1 or head:byte(text - 1) == NEWLINE
        if not (at_line_start and head:byte(text) == HASH) then return head:sub(1, position - 1) end
        local stop = head:find("\n[^#]", text)
        if stop == nil then return head == script and script or nil end
        position = stop + 1
    end
    return nil
end

-- Whether a line of `text` at or after `from` is a directive.
function M.has_directive(text, from)
    local found = text:find("#RAD", from, true)
    for _ = 1, MAX_STEPS do
        if found == nil then return false end
        local after = text:sub(found + 4, found + 4)
        if (found == 1 or text:byte(found - 1) == NEWLINE) and after:match("^[ \t:=\r\n]?$") then return true end
        found = text:find("#RAD", found + 4, true)
    end
    return false
end

-- The value of the model directive; nil where there is none or the summary stands in the script.
local function model_of(block)
    local model
    local position = 1
    for _ = 1, MAX_STEPS do
        local found, stop, text = block:find("#RAD([ \t][^\r\n]*)", position)
        if found == nil then break end
        if found == 1 or block:byte(found - 1) == NEWLINE then
            if text:match("^%s+summary%-begin") then return nil end
            local key = "%s[Mm][Oo][Dd][Ee][Ll]%s*[=:]%s*"
            model = model or text:match(key .. '"([^"]*)"') or text:match(key .. "'([^']*)'")
                or text:match(key .. "([^%s\"']%S*)")
        end
        position = stop + 1
    end
    return model and (model:gsub(",$", ""))
end

-- As much of the script as its leading comment block can take, or nil where it is no regular file. Without lua-posix
-- where that works: loading it takes longer than all else that RAD does for a job without a summary.
local function script_of(options)
    local path = type(options.argv) == "table" and options.argv[1]
    if not path then return nil end
    -- Opened for writing too, though nothing is written: else the opening of a FIFO would wait for a writer.
    local file = io.open(path, "r+b")
    if file == nil then return (require("rad_summary").read(path, 4 * 1024 * 1024)) end
    local text
    if file:seek("end") and file:seek("set") then text = file:read(M.longest_block + 1) end -- a pipe cannot seek
    file:close()
    return text
end

-- For cli_filter.lua, on the login node, as the user: hands the summary that a directive names on in the job's
-- environment. Never refuses: what is wrong is said at submit, by radd.
function M.pre_submit(options)
    if options.type ~= "sbatch" then return slurm.SUCCESS end
    pcall(function()
        -- A job that submits jobs must not pass its own on.
        for _, name in ipairs({ "RAD_SUMMARY", "RAD_SHARE", "RAD_THREAD_PERCENTAGE", "RAD_SUMMARY_1" }) do
            if os.getenv(name) then
                require("rad_summary").forget()
                break
            end
        end
        local script = script_of(options)
        local block = script and script:find("#RAD", 1, true) and M.leading_block(script)
        local model = block and M.has_directive(block, 1) and model_of(block)
        if model then require("rad_summary").hand_on(model) end
    end)
    return slurm.SUCCESS
end

-- Put RAD behind the functions that the site's script has defined. `settings` change the values at the top.
function M.wrap(settings)
    for name, value in pairs(settings or {}) do M[name] = value end
    local site_submit = slurm_job_submit
    if site_submit then
        -- When slurmctld loads its script, before any lock is held.
        local ok, submit = pcall(require, "rad_submit")
        if not ok then
            pcall(slurm.log_info, "%s", "rad: all jobs go through as written: " .. tostring(submit))
            return
        end
        slurm_job_submit = function(job_desc, part_list, submit_uid)
            local result = site_submit(job_desc, part_list, submit_uid)
            if result ~= nil and result ~= slurm.SUCCESS then return result end
            return submit(job_desc, part_list)
        end
    end
    local site_pre_submit = slurm_cli_pre_submit
    if site_pre_submit then
        slurm_cli_pre_submit = function(options, offset)
            local result = site_pre_submit(options, offset)
            if result ~= nil and result ~= slurm.SUCCESS then return result end
            return M.pre_submit(options)
        end
    end
end

return M
