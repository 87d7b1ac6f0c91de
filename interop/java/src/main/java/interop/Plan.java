package interop;

import java.util.function.BooleanSupplier;

/** What each contender is told, and how it writes down what it believes; see
 * contender.h. System.nanoTime() is CLOCK_MONOTONIC on Linux. */
final class Plan {
    final String url;
    final String mutex;
    final String id;
    final long ttlMs;
    final long transitionMs;
    private final long holdNs;
    private final long untilNs;

    Plan(String[] args) {
        url = args[0];
        mutex = args[1];
        id = args[2];
        ttlMs = Long.parseLong(args[3]);
        transitionMs = Long.parseLong(args[4]);
        holdNs = Long.parseLong(args[5]) * 1_000_000;
        untilNs = System.nanoTime() + Long.parseLong(args[6]) * 1_000_000_000;
    }

    /** The servers in the URL, as HOST:PORT with commas between. */
    String hosts() {
        return url.replaceFirst("^[a-z+]*://", "").replaceFirst("[/?].*", "");
    }

    boolean isTimeLeft() {
        return System.nanoTime() < untilNs;
    }

    long leftMs() {
        return Math.max(1, (untilNs - System.nanoTime()) / 1_000_000);
    }

    static void say(String what, long ns) {
        System.out.print(what + " " + ns + "\n");
        System.out.flush();
    }

    static void say(String what) {
        say(what, System.nanoTime());
    }

    /** Works for as long as it is to own; ends early when it does not. */
    void work(BooleanSupplier isOwner) throws InterruptedException {
        long atNs = System.nanoTime();
        long endNs = atNs + holdNs;

        for (String what = "A"; atNs < endNs && isOwner.getAsBoolean();
                what = "S") {
            say(what, atNs);
            Thread.sleep(2);
            atNs = System.nanoTime();
        }
        say("R");
    }
}
