-- Health of a ClusterExtension: what Ready says of this generation; without it, not there yet.

local function condition(name)
  local status = obj.status or {}
  for _, found in ipairs(status.conditions or {}) do
    if found.type == name then
      return found
    end
  end
  return {}
end

local ready = condition("Ready")
local hs = { status = "Progressing", message = ready.message or "" }

if obj.metadata.deletionTimestamp ~= nil then
  if hs.message == "" then
    hs.message = "being removed"
  end
  return hs
end
if ready.status == nil or ready.observedGeneration ~= obj.metadata.generation then
  hs.message = "The latest change has not been processed yet."
  return hs
end
if ready.status == "True" then
  hs.status = "Healthy"
elseif condition("Paused").status == "True" then
  hs.status = "Suspended"
elseif condition("Progressing").status == "False" or condition("Available").status == "False" then
  hs.status = "Degraded"
end
return hs
