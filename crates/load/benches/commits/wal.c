// The preallocated log of the workload `wal`, as a C programmer would write it, without a clock and a histogram. The checksum
// is the CRC-32 of the CPU's instruction, and 0 on CPUs without it.
//   wal DIR CLIENTS RECORDS   prints records a second
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <nmmintrin.h>
#endif

enum { RECORD = 2300, SEGMENT = 8 << 20, KEEP = 5, NOISE = 64 << 10 };

static const char *dir;
static int dir_fd, file;
static long segment = KEEP, position, records_left;
static char noise[NOISE + RECORD];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t group_committed = PTHREAD_COND_INITIALIZER;
static char *pending, *spare;
static long pending_bytes, last_queued, last_synced, has_leader;

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t checksum(const char *bytes, long count) {
    uint64_t sum = ~0u, word;
    for (; count >= 8; bytes += 8, count -= 8) {
        memcpy(&word, bytes, 8);
        sum = _mm_crc32_u64(sum, word);
    }
    for (; count > 0; bytes++, count--) sum = _mm_crc32_u8(sum, *bytes);
    return ~sum;
}
#else
static uint32_t checksum(const char *bytes, long count) { return 0; }
#endif

static void next_segment(void) {
    char path[4096];
    if (segment >= 2 * KEEP) {
        snprintf(path, sizeof path, "%s/%08ld.log", dir, segment - KEEP);
        check(unlink(path), path);
    }
    snprintf(path, sizeof path, "%s/%08ld.log", dir, segment);
    check((file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) < 0, path);
    check(fallocate(file, 0, 0, SEGMENT), "fallocate");
    check(fsync(dir_fd), "fsync");
    position = 0;
}

static void commit(const char *group, long bytes) {
    if (position > 0 && position + bytes > SEGMENT) {
        close(file);
        segment++;
        next_segment();
    }
    check(pwrite(file, group, bytes, position) != bytes, "pwrite");
    check(fdatasync(file), "fdatasync");
    position += bytes;
}

static void *client(void *unused) {
    pthread_mutex_lock(&lock);
    while (records_left > 0) {
        records_left--;
        long number = ++last_queued;
        char *record = pending + pending_bytes;
        const char *contents = noise + number * 7919 % NOISE;
        uint32_t header[4] = {number, number >> 32, RECORD - 16, checksum(contents, RECORD - 16)};
        memcpy(record, header, 16);
        memcpy(record + 16, contents, RECORD - 16);
        pending_bytes += RECORD;
        while (last_synced < number) {
            if (has_leader) {
                pthread_cond_wait(&group_committed, &lock);
                continue;
            }
            char *group = pending;
            long bytes = pending_bytes, last = last_queued;
            pending = spare, pending_bytes = 0, has_leader = 1;
            pthread_mutex_unlock(&lock);
            commit(group, bytes);
            pthread_mutex_lock(&lock);
            spare = group, last_synced = last, has_leader = 0;
            pthread_cond_broadcast(&group_committed);
        }
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    dir = argv[1];
    int clients = atoi(argv[2]);
    long records = records_left = atol(argv[3]);
    pthread_t threads[1024];
    for (int i = 0; i < NOISE + RECORD; i++) noise[i] = random();
    pending = malloc((long)RECORD * clients), spare = malloc((long)RECORD * clients);
    check((dir_fd = open(dir, O_RDONLY | O_CLOEXEC)) < 0, dir);
    next_segment();
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < clients; i++) pthread_create(&threads[i], 0, client, 0);
    for (int i = 0; i < clients; i++) pthread_join(threads[i], 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%f\n", records / (end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9));
}
