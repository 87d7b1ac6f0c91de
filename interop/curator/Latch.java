/* A Curator LeaderLatch on the command line, so that tests can let the JVM
 * contend with us for one mutex.
 *
 *   java Latch CONNECT PATH ID
 *
 * Says "started", then "leader" or "not-leader" with every change, on stdout.
 * Reads commands: "close" leaves the latch and ends, "again" leaves it and joins
 * anew, "who" tells the leader's id and how many participate. The end of stdin
 * is like "close". */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryForever;

public final class Latch {
    private static synchronized void say(String words) {
        System.out.println(words);
        System.out.flush();
    }

    private static LeaderLatch join(
            CuratorFramework client, String path, String id) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, id);

        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                say("leader");
            }

            @Override
            public void notLeader() {
                say("not-leader");
            }
        });
        latch.start();
        return latch;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                args[0], 4000, 4000, new RetryForever(100));
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in));
        LeaderLatch latch;

        client.start();
        latch = join(client, args[1], args[2]);
        say("started");
        for (String line = commands.readLine();
                line != null && !line.equals("close");
                line = commands.readLine()) {
            if (line.equals("again")) {
                latch.close();
                latch = join(client, args[1], args[2]);
                say("again");
            } else if (line.equals("who")) {
                say("who " + latch.getLeader().getId() + " "
                        + latch.getParticipants().size());
            }
        }
        latch.close();
        client.close();
        say("closed");
    }
}
