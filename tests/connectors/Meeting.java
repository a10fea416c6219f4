package penstock.tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/** A line of a commit; while it is asked for, another writer makes the same version. */
public class Meeting implements Iterator<String> {
    private final Path path;
    private final Configuration configuration;
    private final String other;
    private boolean met = false;

    public Meeting(Path path, Configuration configuration, String other) {
        this.path = path;
        this.configuration = configuration;
        this.other = other;
    }

    public boolean hasNext() {
        return !met;
    }

    public String next() {
        met = true;
        try {
            FSDataOutputStream out = path.getFileSystem(configuration).create(path, true);
            out.write((other + "\n").getBytes(StandardCharsets.UTF_8));
            out.close();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
        return "ours";
    }
}
