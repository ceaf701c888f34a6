-- A batch script as text: its leading comment block, its directives. For job_submit.lua and cli_filter.lua.

local rad = require("rad")
local HASH, NEWLINE = 35, 10
local NBSP = "\194\160"
local MAX_STEPS = 10000          -- of a search in a script: 4 MB made for it must not hold slurmctld up
local MAX_LINES = 1000           -- of a block that are looked at one by one

local M = { max_steps = MAX_STEPS }

-- The leading comment block, as sbatch has it: up to the first line that is neither blank nor a comment, which may be
-- indented. nil if it is too long.
-- Lines that begin with # are passed over in C, so that a long block costs little.
function M.leading_block(script)
    local longest = rad.longest_block
    local head = #script > longest and script:sub(1, longest) or script
    local position = 1
    for _ = 1, MAX_STEPS do
        local text = head:find("%S", position)
        if text == nil then return head == script and script or nil end
        if head:byte(text) ~= HASH then return head:sub(1, position - 1) end
        local stop = head:find("\n[^#]", text)
        if stop == nil then return head == script and script or nil end
        position = stop + 1
    end
    return nil
end

-- Where the first directive of `text` begins; nil where there is none. A no-break space behind its mark radd refuses.
function M.directive(text)
    local found = text:find("#RAD", 1, true)
    for _ = 1, MAX_STEPS do
        if found == nil then return nil end
        local after = text:sub(found + 4, found + 5)
        local marks = after == "" or after == NBSP or after:find("^[ \t:=\r\n]")
        if marks and (found == 1 or text:byte(found - 1) == NEWLINE) then return found end
        found = text:find("#RAD", found + 4, true)
    end
    return nil
end

-- The value that a line's pairs set model to; nil where none does, or one before it cannot be read: radd refuses that.
-- A # where a pair would begin begins a comment.
local function model_in(text)
    local position = 1
    for _ = 1, MAX_STEPS do
        local key, from = text:match("^%s*(%a[%w_+-]*)%s*[=:]%s*()", position)
        if key == nil then return nil end
        local value, stop = text:match('^"([^"]*)",?()', from)
        if stop == nil then value, stop = text:match("^'([^']*)',?()", from) end
        if stop == nil then value, stop = text:match("^([^%s\"']%S*)()", from) end
        if stop == nil then return nil end
        if key:lower() == "model" then return (value:gsub(",$", "")) end
        position = stop
    end
    return nil
end

-- The value of the model directive; nil where there is none or the summary stands in the script.
function M.model_of(script)
    local block = M.leading_block(script)
    if not (block and M.directive(block)) then return nil end
    local model
    local position = 1
    for _ = 1, MAX_STEPS do
        local found, stop, text = block:find("#RAD([ \t][^\r\n]*)", position)
        if found == nil then break end
        if found == 1 or block:byte(found - 1) == NEWLINE then
            if text:match("^%s+summary%-begin") then return nil end
            model = model or model_in(text)
        end
        position = stop + 1
    end
    return model
end

local KEYS = {}
for key in ("model batch_size input_size seq_len optimizer precision kind policy memory"):gmatch("%S+") do
    KEYS[key] = true
end

-- The word behind what looks like a directive's mark: a key with a value, or the beginning of a summary.
local function word_of(line)
    local word, behind = line:match("^%s*#[%s\194\160]*[Rr][Aa][Dd][%s\194\160:_-]*(%a[%w_-]*)%s*([=:]?)")
    if word == nil then return nil end
    local key = word:lower():gsub("-", "_")
    if key == "summary_begin" then return "summary-begin" end
    return behind ~= "" and KEYS[key] and key .. "=..." or nil
end

-- What the user is told of lines that look like directives and are comments; nil where there are none. Further down than
-- MAX_LINES or rad.longest_whole bytes nobody looks.
function M.meant(script)
    local block = M.leading_block(script:sub(1, rad.longest_whole))
    if not block then return nil end
    local number, inside, found, shown = 0, false, {}, nil
    for line in block:gmatch("([^\n]*)\n?") do
        number = number + 1
        if number > MAX_LINES then break end
        if M.directive(line) then
            inside = line:find("^#RAD%s+summary%-begin") or (inside and not line:find("^#RAD%s+summary%-end"))
        elseif not inside then
            local word = word_of(line)
            if word then
                shown = shown or word
                found[#found + 1] = number
            end
        end
    end
    if shown == nil then return nil end
    local what = #found == 1 and "line %s looks like a directive and is a comment"
        or "lines %s look like directives and are comments"
    local rest = #found > 3 and string.format(" and %d more", #found - 3) or ""
    return string.format(what .. ": write #RAD %s, from the first column, in capitals, with a blank behind #RAD",
        table.concat(found, ", ", 1, math.min(#found, 3)) .. rest, shown)
end

return M
