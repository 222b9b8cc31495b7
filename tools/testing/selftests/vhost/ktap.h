/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KTAP harness. A test is a function that either returns (pass) or leaves by
 * CHECK()/FAIL()/SKIP(). Each runs in a child of its own, in a process group of
 * its own, under an alarm: a crash or a hang is one failed test, not the end of
 * the run.
 */
#ifndef KTAP_H
#define KTAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct test {
	const char *topic;
	const char *name;
	unsigned int secs;
	void (*fn)(void);
	struct test *next;
};

void ktap_register(struct test *t);
void ktap_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void ktap_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void ktap_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define TEST(topic_, name_, secs_)						\
	static void topic_##_##name_(void);					\
	static struct test topic_##_##name_##_test = {				\
		.topic = #topic_, .name = #name_,				\
		.secs = (secs_), .fn = topic_##_##name_,			\
	};									\
	__attribute__((constructor)) static void topic_##_##name_##_reg(void)	\
	{									\
		ktap_register(&topic_##_##name_##_test);			\
	}									\
	static void topic_##_##name_(void)

#define FAIL(...)	ktap_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...)	ktap_skip(__VA_ARGS__)

#define CHECK(cond, ...)	CHECK_(cond, "" __VA_ARGS__)
#define CHECK_(cond, fmt, ...)							\
	do {									\
		if (!(cond))							\
			FAIL("%s: " fmt, #cond, ##__VA_ARGS__);			\
	} while (0)

/* Two integers have to be equal; both are shown when they are not. */
#define EQ(got, want)								\
	do {									\
		long long got_ = (long long)(got), want_ = (long long)(want);	\
		if (got_ != want_)						\
			FAIL("%s is %lld, expected %lld (%s)", #got, got_,	\
			     want_, #want);					\
	} while (0)

/* `got` is 0 or a negative errno, as vhost_ioctl() returns it. */
#define ERR(got, want)								\
	do {									\
		int got_ = (got), want_ = (want);				\
		if (got_ != want_)						\
			FAIL("%s: got %s, expected %s", #got,			\
			     got_ ? strerrorname_np(-got_) : "success",		\
			     want_ ? strerrorname_np(-want_) : "success");	\
	} while (0)

#define OK(got)	ERR(got, 0)

#endif /* KTAP_H */
