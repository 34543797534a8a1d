/** One case that uses Kafka's Java clients directly. What it prints is its transcript. */
public interface Scenario {
    void run(Session session) throws Exception;
}
