// Deliveries of the workload `maildir`, by rename, as a C programmer would write them.
//   maildir DIR CLIENTS MESSAGES   prints messages a second
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 8 << 10, MAILBOXES = 16, NOISE = 64 << 10 };

static const char *dir;
static int new_dirs[MAILBOXES];
static long messages;
static atomic_long next;
static char noise[NOISE + MESSAGE];

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

static void *client(void *unused) {
    char temporary[4096], path[4096];
    for (long number; (number = next++) < messages;) {
        long mailbox = number % MAILBOXES;
        snprintf(temporary, sizeof temporary, "%s/user%05ld/tmp/%010ld.fsarena", dir, mailbox, number);
        snprintf(path, sizeof path, "%s/user%05ld/new/%010ld.fsarena", dir, mailbox, number);
        int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        check(file < 0, temporary);
        check(write(file, noise + number * 7919 % NOISE, MESSAGE) != MESSAGE, "write");
        check(fsync(file), "fsync");
        close(file);
        check(rename(temporary, path), "rename");
        check(fsync(new_dirs[mailbox]), "fsync");
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    dir = argv[1];
    int clients = atoi(argv[2]);
    messages = atol(argv[3]);
    pthread_t threads[1024];
    for (int i = 0; i < NOISE + MESSAGE; i++) noise[i] = random();
    for (int i = 0; i < MAILBOXES; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/user%05d/new", dir, i);
        check((new_dirs[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0, path);
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < clients; i++) pthread_create(&threads[i], 0, client, 0);
    for (int i = 0; i < clients; i++) pthread_join(threads[i], 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%f\n", messages / (end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9));
}
