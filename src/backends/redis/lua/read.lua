-- Who owns it, and who waits? Changes nothing.
--
-- ARGV: 1 to tell the line as well, 2 to count it; then a word to answer with.
-- Answers as acquire, but of a free mutex the last token; then the called id or '', then id, place us, is C waiter
-- for each in line; or, counted, how many they are.
local found = redis.call('MGET', LEASE, TENURE, NEXT, TOKEN, FENCE)
local owner, tenure = found[1], found[2]
local answer = {0, clock_us(), owner or '', tenure or '',
    owner and redis.call('PTTL', LEASE) or 0,
    (owner and found[4] or not owner and found[5]) or '', 0, 0, 0}

if not owner and redis.call('EXISTS', LEASE) == 1 then
    return redis.error_reply('WRONGTYPE the lease key is not a string')
end
if ARGV[1] == '2' then
    answer[10] = redis.call('ZCARD', LINE) + (found[3] and 1 or 0)
    answer[11] = ARGV[2]
elseif ARGV[1] == '1' then
    local line = redis.call('ZRANGE', LINE, 0, -1, 'WITHSCORES')
    answer[10] = found[3] or ''
    for i = 1, #line, 2 do
        answer[#answer + 1] = line[i]
        answer[#answer + 1] = math.floor(line[i + 1] * 1000000 + 0.5)
    end
end
return answer
