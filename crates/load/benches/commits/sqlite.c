// Transactions of the workload `sqlite` on a database that the workload created, by SQLite's C interface. The program is
// linked with the SQLite that fsarena contains. The declarations are here, because its header is not available.
//   sqlite DATABASE JOURNAL update|read|insert OPERATIONS   prints transactions a second
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_prepare_v3(sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **);
int sqlite3_bind_int64(sqlite3_stmt *, int, int64_t);
int sqlite3_bind_blob(sqlite3_stmt *, int, const void *, int, void (*)(void *));
int sqlite3_step(sqlite3_stmt *);
int sqlite3_reset(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
const void *sqlite3_column_blob(sqlite3_stmt *, int);
int sqlite3_column_bytes(sqlite3_stmt *, int);
enum { ROW = 100, DONE = 101, PERSISTENT = 1 };

enum { VALUE = 256, ROWS = 2000, NOISE = 64 << 10 };
static char noise[NOISE + VALUE], value[VALUE];

static void check(int failed, const char *what) {
    if (failed) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

// Runs in a thread, like every client of a load.
static void *client(void *arguments) {
    char **argv = arguments;
    const char *operation = argv[3];
    long operations = atol(argv[4]);
    int reads = !strcmp(operation, "read"), inserts = !strcmp(operation, "insert");
    const char *sql = reads     ? "SELECT value FROM data WHERE key = ?1"
                      : inserts ? "INSERT INTO log (stamp, value) VALUES (?1, ?2)"
                                : "UPDATE data SET stamp = ?2, value = ?3 WHERE key = ?1";
    char pragmas[200];
    sqlite3 *database;
    sqlite3_stmt *statement;
    for (int i = 0; i < NOISE + VALUE; i++) noise[i] = random();
    check(sqlite3_open(argv[1], &database), "open");
    snprintf(pragmas, sizeof pragmas, "PRAGMA journal_mode=%s; PRAGMA synchronous=full", argv[2]);
    check(sqlite3_exec(database, pragmas, 0, 0, 0), pragmas);
    check(sqlite3_prepare_v3(database, sql, -1, PERSISTENT, &statement, 0), sql);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long i = 0; i < operations; i++) {
        uint64_t stamp = (uint64_t)random() << 33 ^ random();
        const char *bytes = noise + stamp % NOISE;
        int next = 1;
        if (!inserts) sqlite3_bind_int64(statement, next++, stamp % ROWS);
        if (!reads) {
            sqlite3_bind_int64(statement, next++, stamp);
            sqlite3_bind_blob(statement, next, bytes, VALUE, 0);
        }
        check(sqlite3_step(statement) != (reads ? ROW : DONE), operation);
        if (reads) memcpy(value, sqlite3_column_blob(statement, 0), sqlite3_column_bytes(statement, 0));
        sqlite3_reset(statement);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    printf("%f\n", operations / (end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9));
    return 0;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 5) return 2;
    check(pthread_create(&thread, 0, client, argv), "pthread_create");
    check(pthread_join(thread, 0), "pthread_join");
}
