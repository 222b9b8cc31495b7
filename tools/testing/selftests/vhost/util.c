// SPDX-License-Identifier: GPL-2.0
/* Small helpers: time, waiting, /proc, child processes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

bool wait_readable(int fd, int64_t ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms < 0 ? 0 : (int)ms) == 1;
}

void sleep_ms(unsigned int ms)
{
	poll(NULL, 0, (int)ms);
}

int xpidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	CHECK(fd >= 0, "%s", strerror(errno));
	return fd;
}

int xeventfd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	CHECK(fd >= 0, "%s", strerror(errno));
	return fd;
}

uint64_t eventfd_take(int fd)
{
	uint64_t v = 0;

	if (read(fd, &v, sizeof(v)) != sizeof(v))
		return 0;
	return v;
}

/* A network namespace of our own: no foreign frames, and nothing left behind. */
void enter_netns(void)
{
	if (unshare(CLONE_NEWNET)) {
		fprintf(stderr, "no network namespace (%s): CONFIG_NET_NS is needed\n",
			strerror(errno));
		exit(2);
	}
}

unsigned long env_count(const char *name, unsigned long dflt)
{
	const char *s = getenv(name);
	char *end;
	unsigned long v;

	if (!s || !*s)
		return dflt;
	v = strtoul(s, &end, 10);
	CHECK(!*end && v, "%s=%s is no positive number", name, s);
	return v;
}

char *guard_page(void)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED, "%s", strerror(errno));
	CHECK(!mprotect(p + 4096, 4096, PROT_NONE), "%s", strerror(errno));
	return p + 4096;
}

void *prot_none(void)
{
	return guard_page();
}

pid_t spawn(void (*fn)(void *), void *arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0, "%s", strerror(errno));
	if (!pid) {
		fn(arg);
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

int in_child(void (*fn)(void *), void *arg)
{
	pid_t pid = spawn(fn, arg);
	int status;

	CHECK(waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void reap_ok(pid_t pid, int64_t ms)
{
	int fd = xpidfd(pid), status;

	CHECK(wait_readable(fd, ms), "process %d still there after %lld ms", pid,
	      (long long)ms);
	close(fd);
	waitpid(pid, &status, 0);
}

bool read_file(const char *path, char *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = 0;
	while (n && buf[n - 1] == '\n')
		buf[--n] = 0;
	return true;
}

long read_long(const char *path)
{
	char buf[64];

	CHECK(read_file(path, buf, sizeof(buf)), "%s: %s", path, strerror(errno));
	return strtol(buf, NULL, 10);
}

void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0, "%s: %s", path, strerror(errno));
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
	      strerror(errno));
	close(fd);
}

static pid_t find_in_tasks(const char *pid, const char *comm)
{
	char path[300], name[64];
	struct dirent *e;
	pid_t tid = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	d = opendir(path);
	if (!d)
		return 0;
	while (!tid && (e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/task/%s/comm", pid, e->d_name);
		if (read_file(path, name, sizeof(name)) && !strcmp(name, comm))
			tid = atoi(e->d_name);
	}
	closedir(d);
	return tid;
}

pid_t find_thread(const char *comm)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	pid_t tid = 0;

	CHECK(d, "/proc: %s", strerror(errno));
	while (!tid && (e = readdir(d)))
		if (*e->d_name >= '0' && *e->d_name <= '9')
			tid = find_in_tasks(e->d_name, comm);
	closedir(d);
	return tid;
}

long thread_cpu_ms(pid_t tid)
{
	char path[64], buf[128];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", tid);
	CHECK(read_file(path, buf, sizeof(buf)), "%s: %s", path, strerror(errno));
	return (long)(strtoull(buf, NULL, 10) / 1000000);
}

long open_files(void)
{
	return read_long("/proc/sys/fs/file-nr");
}

static long meminfo_kb(const char *key)
{
	static char buf[8192];
	char *p;

	CHECK(read_file("/proc/meminfo", buf, sizeof(buf)), "%s", strerror(errno));
	p = strstr(buf, key);
	CHECK(p, "no line %s in /proc/meminfo", key);
	return strtol(p + strlen(key), NULL, 10);
}

long kernel_kb(void)
{
	return meminfo_kb("SUnreclaim:") + meminfo_kb("VmallocUsed:");
}

/* The fourth word of /proc/loadavg is "running/all". */
long all_threads(void)
{
	char buf[128], *p;

	CHECK(read_file("/proc/loadavg", buf, sizeof(buf)), "%s", strerror(errno));
	p = strchr(buf, '/');
	CHECK(p, "/proc/loadavg says %s", buf);
	return strtol(p + 1, NULL, 10);
}

unsigned int kmalloc_objects(struct cache *t, unsigned int max)
{
	FILE *f = fopen("/proc/slabinfo", "r");
	char line[512];
	unsigned int n = 0;

	CHECK(f, "/proc/slabinfo: %s", strerror(errno));
	while (n < max && fgets(line, sizeof(line), f))
		if (sscanf(line, "%31s %ld", t[n].name, &t[n].objects) == 2 &&
		    !strncmp(t[n].name, "kmalloc-", 8))
			n++;
	fclose(f);
	return n;
}
