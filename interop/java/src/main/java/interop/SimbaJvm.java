package interop;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import me.ahoo.simba.core.AbstractMutexContender;
import me.ahoo.simba.core.MutexContendService;
import me.ahoo.simba.core.MutexContendServiceFactory;
import me.ahoo.simba.core.MutexState;
import me.ahoo.simba.spring.redis.SpringRedisMutexContendServiceFactory;
import org.apache.curator.framework.CuratorFramework;
import org.mariadb.jdbc.MariaDbDataSource;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;

/** A contender of Simba on the JVM: each time a service of its own, as its
 * locker does. Maven Central has it for Redis only; for the other stores it must
 * be on the class path (SIMBA_JVM_CLASSPATH), and is looked for by name. */
public final class SimbaJvm {
    private static final Executor HANDLERS = Executors.newCachedThreadPool();

    /** Tells when it owns the mutex. */
    private static final class Contender extends AbstractMutexContender {
        final CountDownLatch acquired = new CountDownLatch(1);

        Contender(Plan plan) {
            super(plan.mutex, plan.id);
        }

        @Override
        public void onAcquired(MutexState state) {
            acquired.countDown();
        }

        @Override
        public void onReleased(MutexState state) {
        }
    }

    private static MutexContendServiceFactory onRedis(
            Plan plan, Duration ttl, Duration transition) {
        String[] host = plan.hosts().split(":");
        LettuceConnectionFactory connections = new LettuceConnectionFactory(
                host[0], Integer.parseInt(host[1]));
        RedisMessageListenerContainer listeners =
                new RedisMessageListenerContainer();

        connections.afterPropertiesSet();
        connections.start();
        listeners.setConnectionFactory(connections);
        listeners.afterPropertiesSet();
        listeners.start();
        return new SpringRedisMutexContendServiceFactory(ttl, transition,
                new StringRedisTemplate(connections), listeners, HANDLERS,
                Executors.newScheduledThreadPool(2));
    }

    /** SOCKET is the server's, in place of a URL. */
    private static MutexContendServiceFactory onMysql(
            Plan plan, Duration ttl, Duration transition) throws Exception {
        DataSource source = new MariaDbDataSource(
                "jdbc:mariadb://localhost/simba?user=simba&localSocket="
                + plan.url);
        String in = "me.ahoo.simba.jdbc.";
        Object repository = Class.forName(in + "JdbcMutexOwnerRepository")
                .getConstructor(DataSource.class).newInstance(source);

        return (MutexContendServiceFactory)
                Class.forName(in + "JdbcMutexContendServiceFactory")
                .getConstructor(Class.forName(in + "MutexOwnerRepository"),
                        Executor.class, Duration.class, Duration.class,
                        Duration.class)
                .newInstance(
                        repository, HANDLERS, Duration.ZERO, ttl, transition);
    }

    private static MutexContendServiceFactory onZookeeper(Plan plan)
            throws Exception {
        CuratorFramework client = Curator.connect(plan);

        return (MutexContendServiceFactory) Class.forName(
                "me.ahoo.simba.zookeeper.ZookeeperMutexContendServiceFactory")
                .getConstructor(Executor.class, CuratorFramework.class)
                .newInstance(HANDLERS, client);
    }

    public static void main(String[] args) throws Exception {
        Plan plan = new Plan(args);
        Duration ttl = Duration.ofMillis(plan.ttlMs);
        Duration transition = Duration.ofMillis(plan.transitionMs);
        MutexContendServiceFactory factory =
                plan.url.startsWith("redis:") ? onRedis(plan, ttl, transition)
                : plan.url.startsWith("/") ? onMysql(plan, ttl, transition)
                : onZookeeper(plan);

        while (plan.isTimeLeft()) {
            Contender contender = new Contender(plan);
            MutexContendService service =
                    factory.createMutexContendService(contender);

            Plan.say("W");
            service.start();
            if (contender.acquired.await(
                        plan.leftMs(), TimeUnit.MILLISECONDS)) {
                plan.work(service::isOwner);
            }
            service.stop();
            Thread.sleep(5);
        }
        System.exit(0);
    }
}
