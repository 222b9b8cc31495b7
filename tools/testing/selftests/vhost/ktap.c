// SPDX-License-Identifier: GPL-2.0
/* KTAP harness: runs each registered test in a child and reports it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktap.h"
#include "expect.h"
#include "util.h"

enum { EXIT_PASS, EXIT_FAIL, EXIT_SKIP = 4 };

static struct test *tests, **tests_end = &tests;
static char *skip_reason;	/* shared with the children */

#define REASON_LEN 200

void ktap_register(struct test *t)
{
	*tests_end = t;
	tests_end = &t->next;
}

void ktap_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	fflush(stdout);
}

void ktap_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# %s:%d: ", file, line);
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	fflush(stdout);
	_exit(EXIT_FAIL);
}

void ktap_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(skip_reason, REASON_LEN, fmt, ap);
	va_end(ap);
	_exit(EXIT_SKIP);
}

/* Alarms are for an idle machine; VHOST_PATIENCE multiplies them. */
static unsigned int limit(const struct test *t)
{
	return t->secs * (unsigned int)env_count("VHOST_PATIENCE", 1);
}

/* So that a line in the kernel log can be told to belong to a test. */
static void mark_log(const struct test *t)
{
	FILE *f = fopen("/dev/kmsg", "w");

	if (!f)
		return;
	fprintf(f, "vhost selftest %s:%s.%s\n", impl_name(), t->topic, t->name);
	fclose(f);
}

static void child(const struct test *t)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(limit(t));
	t->fn();
	fflush(stdout);
	_exit(EXIT_PASS);
}

/* Waits for the child a little longer than its own alarm; false: it is stuck. */
static bool reap(pid_t pid, unsigned int secs, int *status)
{
	int64_t end = now_ms() + secs * 1000LL + 5000;
	int pidfd = xpidfd(pid);
	bool done = wait_readable(pidfd, end - now_ms());

	if (!done) {
		kill(-pid, SIGKILL);
		done = wait_readable(pidfd, 5000);
	}
	close(pidfd);
	if (done)
		waitpid(pid, status, 0);
	kill(-pid, SIGKILL);
	return done;
}

static const char *verdict(int status, char *why, size_t len)
{
	*why = 0;
	if (WIFSIGNALED(status)) {
		if (WTERMSIG(status) == SIGALRM)
			snprintf(why, len, " # TIMEOUT");
		else
			snprintf(why, len, " # killed by SIG%s",
				 sigabbrev_np(WTERMSIG(status)));
		return "not ok";
	}
	if (WEXITSTATUS(status) == EXIT_SKIP) {
		snprintf(why, len, " # SKIP %s", skip_reason);
		return "ok";
	}
	return WEXITSTATUS(status) == EXIT_PASS ? "ok" : "not ok";
}

static bool run_one(const struct test *t, unsigned int nr)
{
	char why[REASON_LEN + 16];
	int64_t start = now_ms();
	const char *word;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	mark_log(t);
	pid = fork();
	if (pid == 0)
		child(t);
	if (!reap(pid, limit(t), &status)) {
		printf("not ok %u %s:%s.%s # TIMEOUT, cannot be killed\n", nr,
		       impl_name(), t->topic, t->name);
		fflush(stdout);
		exit(3);
	}
	word = verdict(status, why, sizeof(why));
	if (!*why)
		snprintf(why, sizeof(why), " # %lld ms",
			 (long long)(now_ms() - start));
	printf("%s %u %s:%s.%s%s\n", word, nr, impl_name(), t->topic, t->name, why);
	fflush(stdout);
	return *word == 'o';
}

static bool selected(const struct test *t, char **args, int n)
{
	char full[128];

	if (!n)
		return true;
	snprintf(full, sizeof(full), "%s.%s", t->topic, t->name);
	for (int i = 0; i < n; i++)
		if (strstr(full, args[i]))
			return true;
	return false;
}

static int run_all(char **args, int nargs)
{
	unsigned int nr = 0, failed = 0, count = 0;

	for (struct test *t = tests; t; t = t->next)
		count += selected(t, args, nargs);
	printf("KTAP version 1\n1..%u\n", count);
	if (!count) {
		printf("# no test of that name; see -l\n");
		return 2;
	}
	for (struct test *t = tests; t; t = t->next)
		if (selected(t, args, nargs))
			failed += !run_one(t, ++nr);
	printf("# passed or skipped %u, failed %u\n", count - failed, failed);
	return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "-l")) {
		for (struct test *t = tests; t; t = t->next)
			printf("%s.%s\n", t->topic, t->name);
		return 0;
	}
	if (argc > 1 && argv[1][0] == '-') {
		fprintf(stderr, "usage: %s [-l] [part of a test name]...\n", argv[0]);
		return 2;
	}
	if (geteuid()) {
		fprintf(stderr, "needs root (taps, /dev nodes): run it by run.sh in the VM\n");
		return 2;
	}
	if (access(node_path(), R_OK | W_OK)) {
		fprintf(stderr, "cannot use %s (%s): load the module or set VHOST_NODE\n",
			node_path(), strerror(errno));
		return 2;
	}
	skip_reason = mmap(NULL, REASON_LEN, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (skip_reason == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	enter_netns();
	return run_all(argv + 1, argc - 1);
}
