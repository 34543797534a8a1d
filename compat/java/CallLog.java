import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;

/** The history of a run: a JSON line on stdout for each call of a client. Times are seconds of the machine's monotonic clock. */
final class CallLog {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream out;

    CallLog(PrintStream out) {
        this.out = out;
    }

    static double now() {
        return System.nanoTime() / 1e9;
    }

    void write(String call, Object... namesAndValues) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("call", call);
        for (int i = 0; i < namesAndValues.length; i += 2) {
            line.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        try {
            String text = JSON.writeValueAsString(line);
            synchronized (out) {
                out.println(text);
            }
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }
}
