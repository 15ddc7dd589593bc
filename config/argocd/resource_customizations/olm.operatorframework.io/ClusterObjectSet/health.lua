-- Health of a ClusterObjectSet, a revision: Available and Progressing at this generation. One that
-- is archived has done its work.

local function condition(name)
  local status = obj.status or {}
  for _, found in ipairs(status.conditions or {}) do
    if found.type == name then
      return found
    end
  end
  return {}
end

local progressing = condition("Progressing")
local available = condition("Available")
local hs = { status = "Progressing", message = progressing.message or "" }

if obj.metadata.deletionTimestamp ~= nil then
  if hs.message == "" then
    hs.message = "being removed"
  end
  return hs
end
if progressing.status == nil or progressing.observedGeneration ~= obj.metadata.generation then
  hs.message = "The latest change has not been processed yet."
  return hs
end
if progressing.reason == "Archived" then
  hs.status = "Healthy"
elseif progressing.status == "False" then
  hs.status = "Degraded"
elseif available.status == "False" and progressing.reason == "Succeeded" then
  hs.status = "Degraded"
  hs.message = available.message or ""
elseif available.status == "True" and progressing.reason == "Succeeded" then
  hs.status = "Healthy"
  hs.message = available.message or ""
end
return hs
