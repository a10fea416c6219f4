package penstock.hudi;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.avro.Schema;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.mapred.FsInput;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.client.HoodieJavaWriteClient;
import org.apache.hudi.client.WriteStatus;
import org.apache.hudi.client.common.HoodieJavaEngineContext;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.engine.EngineType;
import org.apache.hudi.common.model.EmptyHoodieRecordPayload;
import org.apache.hudi.common.model.HoodieAvroRecord;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.HoodieRecordLocation;
import org.apache.hudi.common.model.OverwriteWithLatestAvroPayload;
import org.apache.hudi.common.model.WriteOperationType;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.util.ObjectSizeCalculator;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.keygen.BaseKeyGenerator;
import org.apache.hudi.keygen.ComplexAvroKeyGenerator;
import org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator;
import org.apache.hudi.keygen.SimpleAvroKeyGenerator;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;
import org.apache.hudi.table.HoodieTable;
import org.apache.hudi.table.action.HoodieWriteMetadata;

/**
 * Writes staged rows into a Hudi table, as one commit. Compiled at run time, above the jars of Hudi.
 *
 * A staged record has `row` (none where a row is deleted), `file` and `partition` where the row of its key stands
 * (none for a new one), and its `key`, if it is known. Those of one file come one after the other.
 */
public class Writing {
    static {
        // Hudi measures objects by JOL, which prints what it cannot do when it is first used.
        PrintStream shown = System.out;
        PrintStream errors = System.err;
        PrintStream nowhere = new PrintStream(new ByteArrayOutputStream());
        System.setProperty("jol.skipDynamicAttach", "true");
        System.setProperty("jol.skipHotspotSAAttach", "true");
        System.setOut(nowhere);
        System.setErr(nowhere);
        try {
            ObjectSizeCalculator.getObjectSize("");
        } finally {
            System.setOut(shown);
            System.setErr(errors);
        }
    }

    private static final String SMALL = "hoodie.parquet.small.file.limit";
    private final ClassLoader loader = Writing.class.getClassLoader();
    private final Configuration hadoop;
    private final String path;
    private final String folder;
    private final TypedProperties settings = new TypedProperties();
    private final List statuses = new ArrayList();
    private final Map replaced = new HashMap();
    private HoodieWriteConfig config;
    private HoodieJavaEngineContext context;
    private HoodieJavaWriteClient client;
    private BaseKeyGenerator keys;
    private RandomAccessFile locked;
    private Path guard;
    private String mark;
    private String instant;
    private String prefix;
    private boolean overwrite;
    private long count;

    public Writing(Configuration hadoop, String path, Map settings) {
        boolean local = path.startsWith("/");
        this.folder = local ? path : null;
        this.path = local ? "file://" + path : path;
        this.hadoop = new Configuration(hadoop);
        this.hadoop.setClassLoader(this.loader);
        // Lists may have nulls in them.
        this.hadoop.setBoolean("parquet.avro.write-old-list-structure", false);
        // Hudi's own file systems are made of those of the stores, which may be closed and opened anew.
        this.hadoop.setBoolean("fs.hoodie-" + new Path(this.path).toUri().getScheme() + ".impl.disable.cache", true);
        this.settings.putAll(settings);
    }

    /** The lock of a table in a store, and what it says as long as it is ours. */
    public void guard(String lock, String mark) {
        this.guard = new Path(lock);
        this.mark = mark;
    }

    /** Makes the table, which is not there. */
    public void create(Map table) throws IOException {
        ClassLoader before = enter();
        try {
            Properties told = new Properties();
            told.putAll(table);
            HoodieTableMetaClient.newTableBuilder().fromProperties(told)
                .initTable(new HadoopStorageConfiguration(this.hadoop), this.path);
        } finally {
            leave(before);
        }
    }

    /** Takes back a commit, which must be the newest; gives `false`, and does nothing, when another process writes. */
    public boolean rollback(String instant) throws IOException {
        ClassLoader before = enter();
        try {
            if (!lock()) {
                return false;
            }
            open();
            return this.client.rollback(instant);
        } finally {
            close(before);
        }
    }

    /**
     * Writes the records of `files` by slices of `rows` or `bytes`, whichever is reached first; readers see all or
     * none. Rows without a key get `prefix` and a number. Nothing is written, and `false` given, when another process
     * writes, or when `newest` is no longer the newest commit, since records tell where rows stood then.
     */
    public boolean write(List files, Map extra, String prefix, boolean overwrite, String newest, int rows, long bytes)
            throws IOException {
        ClassLoader before = enter();
        try {
            if (!lock() || !newest.equals(newest())) {
                return false;
            }
            open();
            this.prefix = prefix;
            this.overwrite = overwrite;
            String action = overwrite ? "replacecommit" : "commit";
            // This also takes back what a writer left that was killed.
            this.instant = this.client.startCommit(action);
            try {
                slices(files, rows, bytes);
                if (!isOurs()) {
                    return false; // who followed takes back what was written here
                }
                this.client.commit(this.instant, this.statuses, Option.of(extra), action, this.replaced,
                    Option.empty(), Option.empty());
            } catch (Throwable failure) {
                try {
                    this.client.rollback(this.instant);
                } catch (Throwable another) {
                    failure.addSuppressed(another);
                }
                if (failure instanceof IOException) {
                    throw (IOException) failure;
                }
                throw new RuntimeException(failure);
            }
            return true;
        } finally {
            close(before);
        }
    }

    /** The instant of the newest commit; empty where there is none. */
    private String newest() {
        HoodieTableMetaClient table = HoodieTableMetaClient.builder()
            .setConf(new HadoopStorageConfiguration(this.hadoop)).setBasePath(this.path).build();
        Option last = table.getActiveTimeline().getCommitsTimeline().filterCompletedInstants().lastInstant();
        return last.isPresent() ? ((HoodieInstant) last.get()).requestedTime() : "";
    }

    private void slices(List files, int rows, long bytes) throws IOException {
        List slice = new ArrayList();
        long size = 0;
        if (this.overwrite) {
            // Else new rows go into files that are to be replaced.
            this.config.setValue(SMALL, "0");
        }
        for (Iterator i = files.iterator(); i.hasNext();) {
            FsInput input = new FsInput(new Path((String) i.next()), this.hadoop);
            DataFileReader reader = new DataFileReader(input, new GenericDatumReader());
            try {
                String last = null;
                long begin = 0;
                while (reader.hasNext()) {
                    GenericRecord staged = (GenericRecord) reader.next();
                    String file = text(staged, "file");
                    boolean full = slice.size() >= rows || size + reader.previousSync() - begin >= bytes;
                    // All changes to a file stand in one slice: a later one would not see what an earlier one did.
                    if (full && (file == null || !file.equals(last))) {
                        // Files that a slice makes or fills are not known to the next one.
                        this.config.setValue(SMALL, "0");
                        put(slice);
                        slice = new ArrayList();
                        size = 0;
                        begin = reader.previousSync();
                    }
                    slice.add(record(staged, file));
                    last = file;
                }
                size += reader.previousSync() - begin;
            } finally {
                reader.close();
            }
        }
        put(slice);
    }

    private HoodieRecord record(GenericRecord staged, String file) {
        GenericRecord row = (GenericRecord) staged.get("row");
        String key = text(staged, "key");
        String partition = text(staged, "partition");
        if (key == null) {
            key = this.settings.getString("hoodie.datasource.write.recordkey.field").isEmpty()
                ? this.prefix + this.count++ : this.keys.getRecordKey(row);
        }
        if (partition == null) {
            partition = this.keys.getPartitionPath(row);
        }
        HoodieKey of = new HoodieKey(key, partition);
        HoodieRecord made = row == null
            ? new HoodieAvroRecord(of, new EmptyHoodieRecordPayload())
            : new HoodieAvroRecord(of, new OverwriteWithLatestAvroPayload(row, Integer.valueOf(0)));
        if (file != null) {
            made.unseal();
            made.setCurrentLocation(new HoodieRecordLocation(text(staged, "instant"), file));
            made.seal();
        }
        return made;
    }

    private void put(List slice) {
        List written;
        if (this.overwrite) {
            HoodieTable table = this.client.initTable(
                WriteOperationType.INSERT_OVERWRITE_TABLE, Option.of(this.instant));
            this.client.preWrite(this.instant, WriteOperationType.INSERT_OVERWRITE_TABLE, table.getMetaClient());
            HoodieWriteMetadata done = table.insertOverwriteTable(this.context, this.instant, slice);
            written = (List) done.getWriteStatuses();
            this.replaced.putAll(done.getPartitionToReplaceFileIds());
        } else {
            written = this.client.upsertPreppedRecords(slice, this.instant);
        }
        this.statuses.addAll(written);
        for (Iterator i = written.iterator(); i.hasNext();) {
            WriteStatus status = (WriteStatus) i.next();
            if (status.hasErrors()) {
                Throwable first = status.getGlobalError();
                if (first == null) {
                    first = (Throwable) status.getErrors().values().iterator().next();
                }
                throw new RuntimeException(first);
            }
        }
    }

    private void open() {
        this.config = HoodieWriteConfig.newBuilder().withEngineType(EngineType.JAVA).withPath(this.path)
            .withProperties(this.settings).build();
        this.context = new HoodieJavaEngineContext(new HadoopStorageConfiguration(this.hadoop));
        this.client = new HoodieJavaWriteClient(this.context, this.config);
        String kind = this.settings.getString("hoodie.table.keygenerator.type");
        this.keys = kind.equals("NON_PARTITION") ? new NonpartitionedAvroKeyGenerator(this.settings)
            : kind.equals("COMPLEX") ? new ComplexAvroKeyGenerator(this.settings)
            : (BaseKeyGenerator) new SimpleAvroKeyGenerator(this.settings);
    }

    private static String text(GenericRecord staged, String name) {
        Object value = staged.get(name);
        return value == null ? null : value.toString();
    }

    private ClassLoader enter() {
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        Thread.currentThread().setContextClassLoader(this.loader);
        return before;
    }

    /** In a folder, a lock of this process's own: it may live longer than the Python that it works for, or the call. */
    private boolean lock() throws IOException {
        if (this.folder == null) {
            return isOurs();
        }
        this.locked = new RandomAccessFile(new File(this.folder, ".hoodie/penstock.lock"), "rw");
        return this.locked.getChannel().tryLock() != null;
    }

    /** Whether the lock in a store is still ours, and the last one: a writer that slept may have been followed. */
    private boolean isOurs() throws IOException {
        if (this.guard == null) {
            return true;
        }
        FileSystem files = this.guard.getFileSystem(this.hadoop);
        FileStatus[] locks = files.listStatus(this.guard.getParent());
        String own = this.guard.getName();
        boolean there = false;
        for (int i = 0; i < locks.length; i++) {
            String name = locks[i].getPath().getName();
            if (name.equals(own + ".free") || name.substring(0, own.length()).compareTo(own) > 0) {
                return false;
            }
            there = there || name.equals(own);
        }
        return there && text(files).equals(this.mark);
    }

    private String text(FileSystem files) throws IOException {
        FSDataInputStream in = files.open(this.guard);
        try {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } finally {
            in.close();
        }
    }

    private void close(ClassLoader before) throws IOException {
        try {
            if (this.client != null) {
                this.client.close();
            }
        } finally {
            leave(before);
            if (this.locked != null) {
                this.locked.close();
            }
        }
    }

    private static void leave(ClassLoader before) {
        Thread.currentThread().setContextClassLoader(before);
    }
}
