import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools and the cases of this directory inside one JVM. Reads one JSON command per line on stdin
 * and answers one JSON line each on stdout. Every command has a thread (and what that thread starts) with its own standard
 * streams; a tool's exit becomes its exit code.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The standard streams of one command, inherited by the threads that the command starts. */
    private static final class Streams {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final InputStream in;
        /** The tool's first exit, and the thread that unwinds for it: what that prints meanwhile, taking our way to end it for
         *  an error, is not the tool's behaviour. */
        Integer exit;
        Thread unwinding;
        /** What the tool leaves to the end of its JVM, as closing its producer. */
        final List<Runnable> hooks = new ArrayList<>();

        Streams(byte[] in) {
            this.in = new ByteArrayInputStream(in);
        }
    }

    private static final InheritableThreadLocal<Streams> STREAMS = new InheritableThreadLocal<>();

    private static final class ExitRequest extends Error {
        ExitRequest(int code) {
            super("exit " + code, null, false, false);
        }
    }

    private static final class Out extends OutputStream {
        final boolean error;

        Out(boolean error) {
            this.error = error;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            Streams streams = STREAMS.get();
            if (streams != null && streams.unwinding != Thread.currentThread()) {
                (error ? streams.err : streams.out).write(bytes, offset, length);
            }
        }
    }

    private static final class In extends InputStream {
        @Override
        public int read() throws IOException {
            Streams streams = STREAMS.get();
            return streams == null ? -1 : streams.in.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            Streams streams = STREAMS.get();
            return streams == null ? -1 : streams.in.read(bytes, offset, length);
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream replies = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(new Out(false), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Out(true), true, StandardCharsets.UTF_8));
        System.setIn(new In());
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> STREAMS.get().hooks.add(hook));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            new Thread(() -> answer(command, replies), "command-" + command.get("id")).start();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void exit(int code) {
        Streams streams = STREAMS.get();
        if (streams != null && streams.exit == null) {
            streams.exit = code;
            streams.unwinding = Thread.currentThread();
        }
        throw new ExitRequest(code);
    }

    private static void answer(JsonNode command, PrintStream replies) {
        Streams streams = new Streams(command.get("stdin").asText().getBytes(StandardCharsets.UTF_8));
        int[] code = {124};
        Thread worker = new Thread(() -> {
            STREAMS.set(streams);
            code[0] = execute(command);
            streams.unwinding = null;
            streams.hooks.forEach(Runnable::run);
        });
        worker.setDaemon(true);
        worker.start();
        try {
            worker.join(command.get("timeout_s").asLong() * 1000);
            if (worker.isAlive()) {
                streams.err.writeBytes("timed out at\n".getBytes(StandardCharsets.UTF_8));
                for (StackTraceElement frame : worker.getStackTrace()) {
                    streams.err.writeBytes(("  " + frame + "\n").getBytes(StandardCharsets.UTF_8));
                }
                worker.interrupt();
            }
            ObjectNode reply = JSON.createObjectNode();
            reply.put("id", command.get("id").asInt());
            reply.put("code", streams.exit != null ? streams.exit : code[0]);
            reply.put("out", streams.out.toString(StandardCharsets.UTF_8));
            reply.put("err", streams.err.toString(StandardCharsets.UTF_8));
            synchronized (replies) {
                replies.println(JSON.writeValueAsString(reply));
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static int execute(JsonNode command) {
        List<String> arguments = new ArrayList<>();
        command.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        try {
            Class<?> named = Class.forName(command.get("name").asText());
            if (command.get("kind").asText().equals("tool")) {
                named.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(new String[0]));
            } else {
                try (Session session = new Session(arguments.get(0), arguments.get(1), arguments.subList(2, arguments.size()))) {
                    ((Scenario) named.getDeclaredConstructor().newInstance()).run(session);
                }
            }
            return 0;
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace();
        } catch (Throwable e) {
            e.printStackTrace();
        }
        return 1;
    }
}
