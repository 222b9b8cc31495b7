/* SPDX-License-Identifier: GPL-2.0 */
/* Small helpers: time, waiting, /proc, child processes. */
#ifndef UTIL_H
#define UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * How long to wait for what has to happen. It costs nothing when it does, and an
 * emulated machine on a busy host is slow.
 */
#define WAIT_MS	10000

int64_t now_ms(void);
bool wait_readable(int fd, int64_t ms);
void sleep_ms(unsigned int ms);
int xpidfd(pid_t pid);
int xeventfd(void);
/* Value of an eventfd, which it resets; 0 if it was not signalled. */
uint64_t eventfd_take(int fd);
void enter_netns(void);

/* Size of a run: VHOST_FRAMES and VHOST_ROUNDS override the defaults. */
unsigned long env_count(const char *name, unsigned long dflt);
#define FRAMES	env_count("VHOST_FRAMES", 10000)
#define ROUNDS	env_count("VHOST_ROUNDS", 100)

/* Two pages: the first may be used, touching the second faults. Returns the border. */
char *guard_page(void);
/* A whole page that may not be touched. */
void *prot_none(void);

/* Runs fn(arg) in a forked child (another mm) and returns its exit code. */
int in_child(void (*fn)(void *), void *arg);
pid_t spawn(void (*fn)(void *), void *arg);
void reap_ok(pid_t pid, int64_t ms);

bool read_file(const char *path, char *buf, size_t len);
long read_long(const char *path);
void write_file(const char *path, const char *text);

/* Thread id of the thread with that name, or 0. */
pid_t find_thread(const char *comm);
/* CPU time of a thread in milliseconds. */
long thread_cpu_ms(pid_t tid);
long open_files(void);
/* Memory that the kernel holds and cannot give back. */
long kernel_kb(void);
long all_threads(void);

struct cache {
	char name[32];
	long objects;
};

/* Objects in use in the kmalloc caches; returns the number of caches. */
unsigned int kmalloc_objects(struct cache *t, unsigned int max);

#endif /* UTIL_H */
