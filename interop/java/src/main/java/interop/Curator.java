package interop;

import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** A contender on Curator, as Simba on the JVM is on ZooKeeper: a LeaderLatch.
 * With -Drecipe=mutex an InterProcessMutex on the same path, whose nodes have
 * other names: ours know nothing of it. */
public final class Curator {
    static CuratorFramework connect(Plan plan) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                plan.hosts(), (int) (plan.ttlMs + plan.transitionMs), 4000,
                new RetryForever(100));

        client.start();
        return client;
    }

    private static void latch(CuratorFramework client, Plan plan, String path)
            throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, plan.id);

        latch.start();
        if (latch.await(plan.leftMs(), TimeUnit.MILLISECONDS)) {
            plan.work(latch::hasLeadership);
        }
        latch.close();
    }

    private static void mutex(CuratorFramework client, Plan plan, String path)
            throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);

        if (mutex.acquire(plan.leftMs(), TimeUnit.MILLISECONDS)) {
            plan.work(mutex::isAcquiredInThisProcess);
            mutex.release();
        }
    }

    public static void main(String[] args) throws Exception {
        Plan plan = new Plan(args);
        CuratorFramework client = connect(plan);
        String path = "/simba/" + plan.mutex;

        while (plan.isTimeLeft()) {
            Plan.say("W");
            if (System.getProperty("recipe", "latch").equals("mutex")) {
                mutex(client, plan, path);
            } else {
                latch(client, plan, path);
            }
            Thread.sleep(5);
        }
        client.close();
    }
}
