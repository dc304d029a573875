/* Writes down, in order, all that a process does to the files and folders below one folder: what a disk would have to keep.
 *
 * To be loaded before the C library (LD_PRELOAD). TRACE_ROOT is the folder, TRACE_FILE where events are appended. An event is a
 * header and up to two texts or contents; disk.rs says what each means. One lock is held over a call and its event, so the
 * order of events is the order of effects; a sync has two events, as what is written meanwhile may be left out of it.
 *
 * Left out: calls that a database of this project does not make on its files (mmap, sendfile, links, asynchronous I/O), and what
 * goes past the C library. Room that is reserved so is seen by the size that comes with the next event. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 65536
#define REAL(name) ((__typeof__(&name))real(#name))

struct header {
    uint64_t inode, size, offset, first, second;
    uint64_t what;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static char root[PATH_MAX];
static uint64_t syncs;
/* The paths of files and folders below the root that are open. */
static char *paths[FILES_MAX];

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("TRACE_ROOT"), *file = getenv("TRACE_FILE");
    if (!folder || !file || !realpath(folder, root)) return;
    int (*open)(const char *, int, ...) = real("open");
    trace = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void note(char what, int file, uint64_t offset, const void *first, size_t first_bytes, const char *second) {
    struct stat is = {0};
    if (file >= 0) fstat(file, &is);
    size_t second_bytes = second ? strlen(second) : 0;
    struct header header = {is.st_ino, is.st_size, offset, first_bytes, second_bytes, what};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)first, first_bytes}, {(void *)second, second_bytes}};
    ssize_t (*writev)(int, const struct iovec *, int) = real("writev");
    size_t all = sizeof header + first_bytes + second_bytes;
    if (writev(trace, parts, 3) != (ssize_t)all) abort();
}

static void note_path(char what, int file, const char *path) { note(what, file, 0, path, strlen(path), NULL); }

/* The whole path; false if it is not below the root. */
static int is_below(int folder, const char *path, char *whole) {
    if (trace < 0) return 0;
    if (path[0] == '/') snprintf(whole, PATH_MAX, "%s", path);
    else if (folder >= 0 && folder < FILES_MAX && paths[folder]) snprintf(whole, PATH_MAX, "%s/%s", paths[folder], path);
    else return 0;
    size_t length = strlen(root);
    return !strncmp(whole, root, length) && (whole[length] == '/' || !whole[length]);
}

static int is_open(int file) { return trace >= 0 && file >= 0 && file < FILES_MAX && paths[file]; }

static void set_path(int file, const char *path) {
    if (file < 0 || file >= FILES_MAX) return;
    free(paths[file]);
    paths[file] = path ? strdup(path) : NULL;
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    int (*openat)(int, const char *, int, ...) = real("openat");
    char whole[PATH_MAX];
    pthread_mutex_lock(&lock);
    int is_seen = is_below(folder, path, whole);
    struct stat was;
    int was_there = is_seen && !fstatat(folder, path, &was, 0);
    int file = openat(folder, path, flags, mode);
    if (file >= 0 && is_seen) {
        set_path(file, whole);
        if (!was_there) note_path('C', file, whole);
        else if (flags & O_TRUNC) note('T', file, 0, NULL, 0, NULL);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

#define OPEN(name, arguments, folder)                            \
    int name arguments {                                         \
        va_list more;                                            \
        va_start(more, flags);                                   \
        mode_t mode = flags & O_CREAT ? va_arg(more, int) : 0;   \
        va_end(more);                                            \
        return open_at(folder, path, flags, mode);               \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int folder, const char *path, int flags, ...), folder)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder)

int close(int file) {
    pthread_mutex_lock(&lock);
    set_path(file, NULL);
    int done = REAL(close)(file);
    pthread_mutex_unlock(&lock);
    return done;
}

static int copied(int from, int to) {
    if (to >= 0 && is_open(from)) set_path(to, paths[from]);
    return to;
}

int fcntl(int file, int command, ...) {
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    pthread_mutex_lock(&lock);
    int (*fcntl)(int, int, ...) = real("fcntl");
    int done = fcntl(file, command, argument);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copied(file, done);
    pthread_mutex_unlock(&lock);
    return done;
}

int dup(int file) {
    pthread_mutex_lock(&lock);
    int done = copied(file, REAL(dup)(file));
    pthread_mutex_unlock(&lock);
    return done;
}

/* Zeros, which are much of what is written, are noted by their count. */
static void note_written(int file, const char *bytes, size_t count, uint64_t offset) {
    int is_zero = count && !bytes[0] && !memcmp(bytes, bytes + 1, count - 1);
    if (!is_zero) note('W', file, offset, bytes, count, NULL);
    else note('Z', file, offset, &count, sizeof count, NULL);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    pthread_mutex_lock(&lock);
    ssize_t done = REAL(pwrite)(file, bytes, count, offset);
    if (done > 0 && is_open(file)) note_written(file, bytes, done, offset);
    pthread_mutex_unlock(&lock);
    return done;
}
ssize_t pwrite64(int file, const void *bytes, size_t count, off_t offset) { return pwrite(file, bytes, count, offset); }

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (!is_open(file)) return REAL(writev)(file, parts, count);
    pthread_mutex_lock(&lock);
    ssize_t done = REAL(writev)(file, parts, count), left = done;
    uint64_t offset = done > 0 ? lseek(file, 0, SEEK_CUR) - done : 0;
    for (int at = 0; left > 0; at++) {
        size_t bytes = (size_t)left < parts[at].iov_len ? (size_t)left : parts[at].iov_len;
        note_written(file, parts[at].iov_base, bytes, offset);
        offset += bytes, left -= bytes;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int file, const void *bytes, size_t count) {
    if (!is_open(file)) return REAL(write)(file, bytes, count);
    struct iovec part = {(void *)bytes, count};
    return writev(file, &part, 1);
}

int ftruncate(int file, off_t size) {
    pthread_mutex_lock(&lock);
    int done = REAL(ftruncate)(file, size);
    if (!done && is_open(file)) note('T', file, 0, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }

static int synced(int file, int (*sync)(int)) {
    if (!is_open(file)) return sync(file);
    struct stat is = {0};
    fstat(file, &is);
    pthread_mutex_lock(&lock);
    uint64_t number = ++syncs;
    note(S_ISDIR(is.st_mode) ? 'D' : 'B', file, number, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
    int done = sync(file);
    pthread_mutex_lock(&lock);
    if (!done) note('S', -1, number, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
    return done;
}
int fsync(int file) { return synced(file, REAL(fsync)); }
int fdatasync(int file) { return synced(file, REAL(fdatasync)); }

int rename(const char *from, const char *to) {
    char before[PATH_MAX], after[PATH_MAX];
    pthread_mutex_lock(&lock);
    int done = REAL(rename)(from, to);
    if (!done && is_below(AT_FDCWD, from, before) && is_below(AT_FDCWD, to, after))
        note('R', -1, 0, before, strlen(before), after);
    pthread_mutex_unlock(&lock);
    return done;
}

int mkdir(const char *path, mode_t mode) {
    char whole[PATH_MAX];
    pthread_mutex_lock(&lock);
    int done = REAL(mkdir)(path, mode);
    if (!done && is_below(AT_FDCWD, path, whole)) note_path('M', -1, whole);
    pthread_mutex_unlock(&lock);
    return done;
}

int unlinkat(int folder, const char *path, int flags) {
    char whole[PATH_MAX];
    pthread_mutex_lock(&lock);
    int is_seen = is_below(folder, path, whole);
    int done = REAL(unlinkat)(folder, path, flags);
    if (!done && is_seen) note_path('U', -1, whole);
    pthread_mutex_unlock(&lock);
    return done;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
