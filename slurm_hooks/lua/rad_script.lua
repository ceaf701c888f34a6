-- A batch script as text: its leading comment block, its directives. For job_submit.lua and cli_filter.lua.

local rad = require("rad")
local HASH, NEWLINE = 35, 10
local NBSP = "\194\160"
local MAX_STEPS = 10000          -- of a search in a script: 4 MB made for it must not hold slurmctld up

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

return M
