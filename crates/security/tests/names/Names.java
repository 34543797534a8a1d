// Writes names.txt: encoded distinguished names, and what X500Principal.getName() makes of each, both in hexadecimal digits.
// java Names.java > names.txt

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import javax.security.auth.x500.X500Principal;

public class Names {
    static final String[] KINDS = {
        "550403", "550404", "550405", "550406", "550407", "550408", "550409", "55040a", "55040b", "55040c", "55042a",
        "55042e", "550461", "0992268993f22c640101", "0992268993f22c640119", "2a864886f70d010901", "2a864886f70d010902",
        "2b0601040182370201", "883703",
    };
    static final int[] TAGS = {0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1c, 0x1e, 0x0c, 0x13, 0x04, 0x02, 0x12};
    static final String[] PIECES = {
        "a", "Z", "0", " ", "  ", "\r", "\n", "\t", "\0", ",", "+", "=", "\"", "\\", "<", ">", ";", "#", "'", "/", ":", "@",
        "*", "ä", "€", "😀", "\u007f", "\u200f", "\u0130", "ß",
    };

    static byte[] value(int tag, byte[]... contents) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : contents) out.writeBytes(part);
        byte[] inside = out.toByteArray();
        out.reset();
        out.write(tag);
        if (inside.length < 128) {
            out.write(inside.length);
        } else if (inside.length < 256) {
            out.write(0x81);
            out.write(inside.length);
        } else {
            out.write(0x82);
            out.write(inside.length >> 8);
            out.write(inside.length);
        }
        out.writeBytes(inside);
        return out.toByteArray();
    }

    static byte[] attribute(String kind, int tag, byte[] contents) {
        return value(0x30, value(0x06, HexFormat.of().parseHex(kind)), value(tag, contents));
    }

    static byte[] attribute(String kind, int tag, String text) {
        return attribute(kind, tag, text.getBytes(StandardCharsets.UTF_8));
    }

    static void print(byte[]... parts) {
        byte[] name = value(0x30, parts);
        String text;
        try {
            text = new X500Principal(name).getName();
        } catch (RuntimeException error) {
            System.err.println("refused: " + HexFormat.of().formatHex(name) + " " + error);
            return;
        }
        String hex = HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
        System.out.println(HexFormat.of().formatHex(name) + " " + hex);
    }

    public static void main(String[] arguments) {
        print();
        for (String kind : KINDS) print(value(0x31, attribute(kind, 0x0c, "a b")));
        for (int tag = 1; tag < 0x1f; tag++) print(value(0x31, attribute("550403", tag, "abcd")));
        for (String piece : PIECES) {
            for (String text : List.of(piece, piece + "x", "x" + piece, "x" + piece + "y", piece + piece)) {
                print(value(0x31, attribute("550403", 0x0c, text)));
            }
        }
        print(value(0x31, attribute("550403", 0x0c, "")));
        print(value(0x31, attribute("550403", 0x1e, "a€ ".getBytes(StandardCharsets.UTF_16BE))));
        print(value(0x31, attribute("550403", 0x14, "ä, b".getBytes(StandardCharsets.ISO_8859_1))));
        for (String broken : List.of("c3", "c328", "e282", "e28228", "f09f98", "f0288c28", "eda080", "c080", "f8888080", "ff61")) {
            print(value(0x31, attribute("550403", 0x0c, HexFormat.of().parseHex(broken))));
        }
        Random random = new Random(1);
        for (int i = 0; i < 300; i++) {
            List<byte[]> parts = new ArrayList<>();
            for (int part = random.nextInt(4); part >= 0; part--) {
                byte[][] attributes = new byte[random.nextInt(4) == 0 ? 2 : 1][];
                for (int j = 0; j < attributes.length; j++) {
                    StringBuilder text = new StringBuilder();
                    for (int k = random.nextInt(6); k > 0; k--) text.append(PIECES[random.nextInt(PIECES.length)]);
                    String kind = KINDS[random.nextInt(KINDS.length)];
                    attributes[j] = attribute(kind, TAGS[random.nextInt(TAGS.length)], text.toString());
                }
                parts.add(value(0x31, attributes));
            }
            print(parts.toArray(new byte[0][]));
        }
    }
}
