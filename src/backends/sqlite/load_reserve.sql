SELECT boot, floor, reserved, flushed FROM simba_reserve
