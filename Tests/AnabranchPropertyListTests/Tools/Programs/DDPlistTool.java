import com.dd.plist.BinaryPropertyListWriter;
import com.dd.plist.NSObject;
import com.dd.plist.PropertyListParser;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.nio.charset.StandardCharsets;

/** Converts property lists with dd-plist, as Tools.swift asks: see there for the frames. */
class DDPlistTool {
    public static void main(String[] arguments) throws Exception {
        DataInputStream input = new DataInputStream(System.in);
        DataOutputStream output = new DataOutputStream(System.out);
        for (int form = input.read(); form >= 0; form = input.read()) {
            byte[] document = new byte[input.readInt()];
            input.readFully(document);
            byte[] content;
            char kind = 'o';
            try {
                NSObject value = PropertyListParser.parse(document);
                content = form == 'b'
                    ? BinaryPropertyListWriter.writeToArray(value)
                    : value.toXMLPropertyList().getBytes(StandardCharsets.UTF_8);
            } catch (Exception error) {
                kind = 'e';
                content = error.toString().getBytes(StandardCharsets.UTF_8);
            }
            output.writeByte(kind);
            output.writeInt(content.length);
            output.write(content);
            output.flush();
        }
    }
}
