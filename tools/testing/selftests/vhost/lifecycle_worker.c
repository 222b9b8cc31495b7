// SPDX-License-Identifier: GPL-2.0
/* The worker thread: its name, its cgroup, its end, and signals sent to it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

#define MODERN	(&(struct guest_opt){ .features = F_MODERN })

static pid_t worker_of(pid_t tid)
{
	char name[16];

	snprintf(name, sizeof(name), "vhost-%d", tid);
	return find_thread(name);
}

static void gone(pid_t tid)
{
	for (int64_t end = now_ms() + WAIT_MS; worker_of(tid); sleep_ms(5))
		CHECK(now_ms() < end, "worker vhost-%d is still there", tid);
}

TEST(lifecycle, worker_name, 30)
{
	int dev = node_open();

	CHECK(!worker_of(getpid()), "a worker before SET_OWNER");
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	CHECK(worker_of(getpid()), "no thread vhost-%d", getpid());
	close(dev);
	gone(getpid());
}

TEST(lifecycle, worker_gone_after_reset, 30)
{
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	OK(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL));
	gone(getpid());
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	CHECK(worker_of(getpid()), "no worker in the second life");
	close(dev);
	gone(getpid());
}

static void *own_from_thread(void *arg)
{
	static pid_t tid;

	tid = gettid();
	OK(vhost_ioctl(*(int *)arg, VHOST_SET_OWNER, NULL));
	return &tid;
}

/* The name has the id of the thread that called; its end does not end the worker. */
TEST(lifecycle, worker_of_a_thread, 30)
{
	struct rig r = { .tap = tap_open(12) };
	pthread_t t;
	void *tid;
	int dev = node_open();

	CHECK(!pthread_create(&t, NULL, own_from_thread, &dev), "no thread");
	pthread_join(t, &tid);
	CHECK(worker_of(*(pid_t *)tid), "no thread vhost-%d", *(pid_t *)tid);
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	OK(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL));
	close(dev);
	close(r.tap.fd);
	gone(*(pid_t *)tid);
}

/* Without work the worker sleeps. */
TEST(lifecycle, worker_idle, 30)
{
	struct rig r;
	pid_t tid;
	long cpu;

	rig_start(&r, MODERN);
	rig_pass(&r, 200, 200, FRAME_MIN);
	tid = worker_of(getpid());
	CHECK(tid, "no worker");
	sleep_ms(20);
	cpu = thread_cpu_ms(tid);
	sleep_ms(500);
	cpu = thread_cpu_ms(tid) - cpu;
	CHECK(cpu < 50, "%ld ms of CPU in 500 ms without work", cpu);
	rig_stop(&r);
}

/* Signals to a kthread worker change nothing. The C default is a thread of ours. */
TEST(lifecycle, worker_ignores_signals, 30)
{
	static const int sigs[] = { SIGKILL, SIGTERM, SIGSTOP, SIGUSR1, SIGKILL };
	struct rig r;
	struct guest g;
	int dev = node_open();
	uint8_t kthread = VHOST_FORK_OWNER_KTHREAD;
	pid_t tid;

	if (expect("fork_owner_ioctls"))
		OK(vhost_ioctl(dev, VHOST_SET_FORK_FROM_OWNER, &kthread));
	r.tap = tap_open(12);
	r.host = host_open(r.tap.name);
	guest_init(&g, dev, MODERN);
	guest_setup(&g);
	guest_attach_both(&g, r.tap.fd);
	r.g = g;
	tid = worker_of(getpid());
	CHECK(tid, "no worker");
	for (size_t i = 0; i < sizeof(sigs) / sizeof(*sigs); i++)
		CHECK(!kill(tid, sigs[i]), "%s", strerror(errno));
	rig_pass(&r, 200, 200, FRAME_MIN);
	EQ(worker_of(getpid()), tid);
	rig_stop(&r);
	gone(getpid());
}

/* Whether the worker is a task of the owner or a kernel thread. */
TEST(lifecycle, worker_kind, 30)
{
	char path[64], buf[64];
	pid_t tid;
	int dev = node_open();

	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	tid = worker_of(getpid());
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	EQ(read_file(path, buf, sizeof(buf)), !expect("kthread_worker"));
	close(dev);
}

/* The worker may be pinned by whoever may pin it. */
TEST(lifecycle, worker_affinity, 30)
{
	struct rig r;
	cpu_set_t set;

	rig_start(&r, MODERN);
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	CHECK(!sched_setaffinity(worker_of(getpid()), sizeof(set), &set), "%s",
	      strerror(errno));
	rig_pass(&r, 100, 100, FRAME_MIN);
	rig_stop(&r);
}

/* ---- cgroup v2 ---- */

static void v2_line(const char *path, char *line, size_t len)
{
	static char buf[4096];
	char *p, *end;

	CHECK(read_file(path, buf, sizeof(buf)), "%s: %s", path, strerror(errno));
	p = strstr(buf, "0::");
	CHECK(p, "%s has no cgroup v2 line", path);
	end = strchrnul(p, '\n');
	snprintf(line, len, "%.*s", (int)(end - p), p);
}

/* Mounts cgroup v2 privately, makes a group and moves us into it. */
static void enter_group(char dir[128])
{
	char top[] = "/tmp/vhost-cgroup.XXXXXX", file[160];

	CHECK(!unshare(CLONE_NEWNS), "%s", strerror(errno));
	CHECK(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "%s", strerror(errno));
	CHECK(mkdtemp(top), "%s", strerror(errno));
	if (mount("cgroup2", top, "cgroup2", 0, NULL))
		SKIP("no cgroup v2: %s", strerror(errno));
	snprintf(dir, 128, "%s/vhost-test-%d", top, getpid());
	CHECK(!mkdir(dir, 0755), "%s: %s", dir, strerror(errno));
	snprintf(file, sizeof(file), "%.100s/cgroup.procs", dir);
	write_file(file, "0");
}

static void leave_group(const char dir[128])
{
	char file[160];

	snprintf(file, sizeof(file), "%.100s/../cgroup.procs", dir);
	write_file(file, "0");
	for (int64_t end = now_ms() + WAIT_MS; rmdir(dir); sleep_ms(5))
		CHECK(now_ms() < end, "%s is still in use: %s", dir, strerror(errno));
}

TEST(lifecycle, worker_in_owners_cgroup, 30)
{
	char dir[128], path[64], mine[256], its[256];
	pid_t tid;
	int dev;

	enter_group(dir);
	dev = node_open();
	OK(vhost_ioctl(dev, VHOST_SET_OWNER, NULL));
	tid = worker_of(getpid());
	CHECK(tid, "no worker");
	snprintf(path, sizeof(path), "/proc/%d/cgroup", tid);
	v2_line(path, its, sizeof(its));
	v2_line("/proc/self/cgroup", mine, sizeof(mine));
	CHECK(strstr(mine, "vhost-test-"), "we are in %s", mine);
	CHECK(!strcmp(mine, its), "owner in %s, worker in %s", mine, its);
	close(dev);
	gone(getpid());
	leave_group(dir);
}
