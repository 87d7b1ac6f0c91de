-- Extend this very tenure; never create, never steal.
--
-- ARGV: id, attempt, lease ms. Answers as acquire.
local id, attempt, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local found = redis.call('MGET', LEASE, TENURE)
local owner, tenure = found[1], found[2]
local now_us = clock_us()

if owner ~= id or not is_tenure_of(tenure, owner) or
    string.sub(tenure, 1, 33) ~= attempt .. ' ' then
    return {0, now_us, owner or '', tenure or '',
        owner and redis.call('PTTL', LEASE) or 0,
        owner and redis.call('GET', TOKEN) or '', 0, 0, 0}
end
redis.call('PEXPIRE', LEASE, lease_ms)
redis.call('PEXPIRE', TOKEN, lease_ms)
redis.call('PEXPIRE', TENURE, lease_ms)
return {1, now_us, id, tenure, tonumber(lease_ms),
    string.match(tenure, '^%S+ (%d+)'), 0, 0, 0}
