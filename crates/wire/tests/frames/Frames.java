// Prints frames made by Apache Kafka's own generated classes, for tests/golden.rs. To regenerate after a new version:
//   java -cp 'KAFKA_LIBS/*' Frames.java > frames.txt
// A line is: kind, name, version, variant, bytes in hex. Kinds: request, response (bodies without headers), metadata
// (framed as in the log), stored (a body), and batch (a whole record batch).

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ImplicitLinkedHashCollection;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class Frames {
    /** MINUS has -1 in every number, which tells a tagged field's default apart. */
    enum Variant { DEFAULT, FILLED, NULLS, EMPTY, MINUS }

    static int counter;

    public static void main(String[] args) throws Exception {
        for (int key : keys()) {
            ApiMessageType type = ApiMessageType.fromApiKey((short) key);
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(false); version++) {
                print("request", type.name, type.newRequest().getClass(), version);
                print("response", type.name, type.newResponse().getClass(), version);
            }
        }
        for (MetadataRecordType type : MetadataRecordType.values()) {
            ApiMessage message = type.newMetadataRecord();
            for (short version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++)
                print("metadata", message.getClass().getSimpleName(), message.getClass(), version);
        }
        String group = "org.apache.kafka.coordinator.group.generated.";
        String transaction = "org.apache.kafka.coordinator.transaction.generated.";
        String message = "org.apache.kafka.common.message.";
        for (String name : List.of(group + "OffsetCommitKey", group + "OffsetCommitValue", group + "GroupMetadataKey",
                group + "GroupMetadataValue", group + "ConsumerGroupMetadataKey", group + "ConsumerGroupMetadataValue",
                group + "ConsumerGroupPartitionMetadataKey", group + "ConsumerGroupPartitionMetadataValue",
                group + "ConsumerGroupMemberMetadataKey", group + "ConsumerGroupMemberMetadataValue",
                group + "ConsumerGroupTargetAssignmentMetadataKey", group + "ConsumerGroupTargetAssignmentMetadataValue",
                group + "ConsumerGroupTargetAssignmentMemberKey", group + "ConsumerGroupTargetAssignmentMemberValue",
                group + "ConsumerGroupCurrentMemberAssignmentKey", group + "ConsumerGroupCurrentMemberAssignmentValue",
                group + "ConsumerGroupRegularExpressionKey", group + "ConsumerGroupRegularExpressionValue",
                transaction + "TransactionLogKey", transaction + "TransactionLogValue",
                message + "ConsumerProtocolSubscription", message + "ConsumerProtocolAssignment",
                message + "LeaderChangeMessage", message + "EndTxnMarker", message + "SnapshotHeaderRecord",
                message + "SnapshotFooterRecord", message + "KRaftVersionRecord", message + "VotersRecord",
                "org.apache.kafka.server.log.remote.metadata.storage.generated.ProducerSnapshot")) {
            Class<?> c = Class.forName(name);
            Message m = (Message) c.getDeclaredConstructor().newInstance();
            for (short version = m.lowestSupportedVersion(); version <= m.highestSupportedVersion(); version++)
                print("stored", c.getSimpleName(), c, version);
        }
        batches();
    }

    /** Kafka's keys of crates/wire/src/api.rs. */
    static int[] keys() {
        return new int[] {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 35,
            36, 37, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 56, 57, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 74, 75, 80, 81};
    }

    static void print(String kind, String name, Class<?> type, short version) throws Exception {
        Set<String> seen = new HashSet<>();
        for (Variant variant : Variant.values()) {
            counter = 0;
            Message message = (Message) make(type, version, variant);
            byte[] bytes;
            try {
                bytes = kind.equals("metadata")
                    ? bytes(new MetadataRecordSerde(), new ApiMessageAndVersion((ApiMessage) message, version))
                    : MessageUtil.toByteBufferAccessor(message, version).buffer().array();
            } catch (NullPointerException e) {
                continue; // A nested struct that is null by default and may not be.
            }
            String hex = HexFormat.of().formatHex(bytes);
            if (seen.add(hex))
                System.out.println(String.join(" ", kind, name, "" + version, variant.name().toLowerCase(Locale.ROOT), hex));
        }
    }

    static byte[] bytes(MetadataRecordSerde serde, ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(record, cache));
        serde.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }

    /** A message with every field that its version has. */
    static Object make(Class<?> type, short version, Variant variant) throws Exception {
        Object message = type.getDeclaredConstructor().newInstance();
        if (variant == Variant.DEFAULT)
            return message;
        Map<String, org.apache.kafka.common.protocol.types.Field> schema = schema(type, version);
        for (Field field : type.getDeclaredFields()) {
            var known = schema.get(snake(field.getName()));
            if (known == null || Modifier.isStatic(field.getModifiers()))
                continue;
            field.setAccessible(true);
            if (variant == Variant.NULLS && known.type.isNullable() && !field.getType().isPrimitive()
                    && !field.getType().equals(BaseRecords.class) && field.getType() != String.class.arrayType())
                field.set(message, null);
            else
                field.set(message, value(field, known.type, version, variant));
        }
        return message;
    }

    static Map<String, org.apache.kafka.common.protocol.types.Field> schema(Class<?> type, short version) throws Exception {
        Schema schema = ((Schema[]) type.getField("SCHEMAS").get(null))[version];
        Map<String, org.apache.kafka.common.protocol.types.Field> fields = new HashMap<>();
        for (var bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged)
                tagged.fields().values().forEach(field -> fields.put(field.name, field));
            else
                fields.put(bound.def.name, bound.def);
        }
        return fields;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object value(Field field, Type wire, short version, Variant variant) throws Exception {
        Class<?> type = field.getType();
        boolean empty = variant == Variant.EMPTY;
        int n = ++counter;
        if (variant == Variant.MINUS) {
            if (type == byte.class) return (byte) -1;
            if (type == short.class) return (short) -1;
            if (type == int.class && wire != Type.UINT16) return -1;
            if (type == long.class) return -1L;
        }
        if (type == boolean.class) return !empty;
        if (type == byte.class) return (byte) (empty ? 0 : n);
        if (type == short.class) return (short) (empty ? 0 : n * 257);
        if (type == int.class) return empty ? 0 : wire == Type.UINT16 ? n * 257 : n * 65_537;
        if (type == long.class) return empty ? 0L : n * 4_294_967_297L;
        if (type == double.class) return empty ? 0.0 : n / 3.0;
        if (type == String.class) return empty ? "" : "s\u00e9" + n;
        if (type == Uuid.class) return empty ? Uuid.ZERO_UUID : new Uuid(n, -n);
        if (type == byte[].class) return empty ? new byte[0] : new byte[] {1, 2, (byte) n};
        if (type == ByteBuffer.class) return ByteBuffer.wrap(empty ? new byte[0] : new byte[] {3, 4, (byte) n});
        if (type == BaseRecords.class)
            return empty ? MemoryRecords.EMPTY : MemoryRecords.readableRecords(ByteBuffer.wrap(new byte[] {5, 6, (byte) n}));
        if (Collection.class.isAssignableFrom(type)) {
            Class<?> element = field.getGenericType() instanceof ParameterizedType list
                ? (Class<?>) list.getActualTypeArguments()[0]
                : elementOfCollection(type);
            Collection all = ImplicitLinkedHashCollection.class.isAssignableFrom(type)
                ? (Collection) type.getDeclaredConstructor().newInstance()
                : new ArrayList<>();
            for (int i = 0; i < (empty ? 0 : 2); i++)
                all.add(element(element, version, variant));
            return all;
        }
        return make(type, version, variant);
    }

    static Class<?> elementOfCollection(Class<?> type) {
        return (Class<?>) ((ParameterizedType) type.getGenericSuperclass()).getActualTypeArguments()[0];
    }

    static Object element(Class<?> type, short version, Variant variant) throws Exception {
        int n = ++counter;
        if (type == Integer.class) return n * 65_537;
        if (type == Long.class) return n * 4_294_967_297L;
        if (type == Short.class) return (short) (n * 257);
        if (type == Byte.class) return (byte) n;
        if (type == String.class) return "e" + n;
        if (type == Uuid.class) return new Uuid(n, n);
        if (type == byte[].class) return new byte[] {7, (byte) n};
        return make(type, version, variant);
    }

    /** As in Kafka's message generator. */
    static String snake(String name) {
        StringBuilder out = new StringBuilder();
        boolean previousUpper = true;
        for (char c : name.toCharArray()) {
            if (Character.isUpperCase(c) && !previousUpper)
                out.append('_');
            out.append(Character.toLowerCase(c));
            previousUpper = Character.isUpperCase(c);
        }
        return out.toString();
    }

    static void batches() {
        Header[] headers = {new RecordHeader("h", null), new RecordHeader("h", new byte[] {1}), new RecordHeader("", new byte[0])};
        for (CompressionType type : CompressionType.values()) {
            ByteBuffer buffer = ByteBuffer.allocate(512 * 1024);
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, RecordBatch.CURRENT_MAGIC_VALUE,
                Compression.of(type).build(), TimestampType.CREATE_TIME, 0L, -1L, 9L, (short) 2, 7, true, false, 3, 512 * 1024);
            builder.append(1_700_000_000_000L, "key".getBytes(StandardCharsets.UTF_8), null, headers);
            builder.append(1_699_999_999_000L, null, new byte[0], new Header[0]);
            builder.append(1_700_000_000_500L, new byte[0], new byte[200], new Header[0]);
            // More than one block of any codec.
            if (type != CompressionType.NONE)
                for (int i = 0; i < 150; i++)
                    builder.append(1_700_000_000_000L + i, null, new byte[1000], new Header[0]);
            print(type.name, builder.build());
        }
        MemoryRecordsBuilder log = new MemoryRecordsBuilder(ByteBuffer.allocate(1024), RecordBatch.CURRENT_MAGIC_VALUE,
            Compression.NONE, TimestampType.LOG_APPEND_TIME, 40L, 5000L, -1L, (short) -1, -1, false, false, 3, 1024);
        log.append(1L, null, new byte[] {1}, new Header[0]);
        log.append(2L, null, new byte[] {2}, new Header[0]);
        print("log-append-time", log.build());
        print("marker", MemoryRecords.withEndTransactionMarker(50L, 6000L, 3, 9L, (short) 2,
            new EndTransactionMarker(ControlRecordType.COMMIT, 8)));
    }

    static void print(String name, MemoryRecords records) {
        ByteBuffer buffer = records.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        System.out.println(String.join(" ", "batch", name, "2", "filled", HexFormat.of().formatHex(bytes)));
    }
}
