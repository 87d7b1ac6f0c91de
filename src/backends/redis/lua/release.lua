-- End this very attempt: its tenure, its place in line, its being called; then
-- call the next.
--
-- ARGV: id, attempt, tombstone ms or 0. Answers whether a tenure was ended.
local id, attempt = ARGV[1], ARGV[2]
local found = redis.call('MGET', LEASE, TENURE, NEXT)
local owner, tenure, called = found[1], found[2], found[3]
local is_mine = owner == id and is_tenure_of(tenure, owner) and
    string.sub(tenure, 1, 32) == attempt
local was_called = false

if ARGV[3] ~= '0' then
    redis.call('SET', TOMB, '1', 'PX', ARGV[3])
end
if is_mine then
    redis.call('DEL', LEASE, TOKEN, TENURE)
end
if redis.call('EXISTS', LINE, WAITERS) == 0 then
    if is_mine then -- the way it mostly goes: nobody waits
        redis.call('PUBLISH', LEASE, 'released@@' .. id)
    end
    return {is_mine and 1 or 0}
end
if redis.call('HGET', ATTEMPTS, id) == attempt then
    forget(id)
    if called == id then
        was_called = true
        called = false
        redis.call('DEL', NEXT)
        redis.call('HDEL', ATTEMPTS, CALLED)
    end
end
if not called and (is_mine or was_called and not owner) then
    local now_us = clock_us()
    requeue_missing(now_us, called)
    call_next(math.floor(now_us / 1000), id)
end
return {is_mine and 1 or 0}
