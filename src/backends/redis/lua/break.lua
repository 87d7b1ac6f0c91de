-- End the tenure with this token, whoever has it: it can be renewed no more,
-- and is free at the end of its lease, or at once.
--
-- ARGV: token, 1 for at once, why. Answers as acquire; mine: it was there.
-- KEYS[4] is the book of breaks here, a hash: time in us -> which tenure was
-- ended and why, as JSON. No break without an entry, so that comes first.
local BOOK = TOMB
local found = redis.call('MGET', LEASE, TENURE, NEXT, TOKEN)
local owner, tenure, called = found[1], found[2], found[3]
local now_us = clock_us()
local answer = {0, now_us, owner or '', tenure or '',
    owner and redis.call('PTTL', LEASE) or 0, owner and found[4] or '', 0, 0, 0}

if not owner or (found[4] or '0') ~= ARGV[1] then
    return answer
end
redis.call('HSET', BOOK, string.format('%.0f', now_us), string.format(
    '{"token":%s,"id":%s,"now":%s,"reason":%s}', ARGV[1], cjson.encode(owner),
    tostring(ARGV[2] == '1'), cjson.encode(ARGV[3])))
answer[1] = 1
if ARGV[2] == '1' then
    redis.call('DEL', LEASE, TOKEN, TENURE)
    if not called then
        requeue_missing(now_us, called)
        call_next(math.floor(now_us / 1000), owner)
    end
elseif is_tenure_of(tenure, owner) then
    redis.call('SET', TENURE, string.sub(tenure, 1, 32) .. '!' ..
        string.sub(tenure, 34), 'KEEPTTL')
else -- a JVM contender renews by its id alone
    redis.call('SET', LEASE, 'broken', 'XX', 'KEEPTTL')
end
return answer
