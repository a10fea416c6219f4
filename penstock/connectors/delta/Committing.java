package io.delta.storage;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** How a version comes into a table's log so that, of two processes that make the same one, one is told. */
public class Committing {
    /** Brings these classes, by their names, to where Delta has its own: there it looks for them. */
    public static void define(Map<String, byte[]> classes) throws IllegalAccessException {
        MethodHandles.Lookup home = MethodHandles.privateLookupIn(LogStore.class, MethodHandles.lookup());
        for (Map.Entry<String, byte[]> one : classes.entrySet()) {
            try {
                Class.forName((String) one.getKey(), false, LogStore.class.getClassLoader());
            } catch (ClassNotFoundException missing) {
                home.defineClass((byte[]) one.getValue());
            }
        }
    }

    /** In a folder: a link is made whole, and only where nothing is. */
    public static class InFolders extends LocalLogStore {
        public InFolders(Configuration configuration) {
            super(configuration);
        }

        public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
                throws IOException {
            if (overwrite.booleanValue()) {
                super.write(path, actions, overwrite, configuration);
                return;
            }
            java.nio.file.Path target = Paths.get(path.toUri().getPath());
            java.nio.file.Path written = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID());
            try {
                Files.write(written, joined(actions));
                Files.createLink(target, written);
            } finally {
                Files.deleteIfExists(written);
            }
        }
    }

    /** In S3: a request that says that nothing may be there. */
    public static class InS3 extends S3SingleDriverLogStore {
        private static final String CONDITION = "fs.option.create.conditional.overwrite";

        public InS3(Configuration configuration) {
            super(configuration);
        }

        public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
                throws IOException {
            FileSystem files = path.getFileSystem(configuration);
            if (overwrite.booleanValue() || !files.hasPathCapability(path, CONDITION)) {
                super.write(path, actions, overwrite, configuration);
                return;
            }
            byte[] text = joined(actions);
            try {
                FSDataOutputStream out = (FSDataOutputStream) files.createFile(path).must(CONDITION, true).build();
                out.write(text);
                out.close();
            } catch (IOException failure) {
                if (!files.exists(path)) {
                    throw failure;
                }
                // An answer that was lost makes the client ask again, and meet what it wrote itself.
                if (!Arrays.equals(text, content(files, path))) {
                    throw new FileAlreadyExistsException(path.toString());
                }
            }
        }
    }

    static byte[] joined(Iterator<String> actions) throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            text.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            text.write('\n');
        }
        return text.toByteArray();
    }

    static byte[] content(FileSystem files, Path path) throws IOException {
        FSDataInputStream in = files.open(path);
        try {
            return in.readAllBytes();
        } finally {
            in.close();
        }
    }
}
