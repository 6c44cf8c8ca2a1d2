/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An io_uring and a device behind it that exist only in this process, in the
 * place of liburing's functions that enter the kernel (ld --wrap). The inline
 * ones of liburing.h work on its queues as on real ones.
 *
 * The device is a ring whose other members have only zeros: a job copies what the
 * rank has of the src to where it goes in the dst. Jobs run in order, one each time
 * the library waits, unless they are held.
 */
#ifndef _FAKE_URING_H
#define _FAKE_URING_H

#include "libtest.h"

#define FAKE_JOBS_MAX	4096

/**
 * struct fake_job - a submitted job
 * @call: as in the SQE
 * @user_data: as in the SQE
 * @buf_index: as in the SQE
 * @fixed: IORING_URING_CMD_FIXED was set
 */
struct fake_job {
	struct allreduce_call call;
	uint64_t user_data;
	uint16_t buf_index;
	bool fixed;
};

/**
 * struct fake - the fake kernel; tests set and look at the fields
 * @init_error: result of io_uring_queue_init_params()
 * @attach_res: res of ATTACH
 * @job_res: res of jobs
 * @info: what ATTACH and INFO tell
 * @hold: jobs stay in flight
 * @deaf: CANCEL matches, but the jobs stay in flight
 * @interrupts: so many calls still fail with -EINTR
 * @refusals: so many submissions still fail with -EAGAIN
 * @register_error: result of io_uring_register_buffers()
 * @broken: result of every call that enters the kernel, if not 0
 * @in_flight: jobs now
 * @most: @in_flight at most
 * @n_jobs: jobs so far
 * @n_cancels: CANCELs so far
 * @n_infos: INFOs so far
 * @rings: io_urings that exist
 * @attached: name in the last ATTACH
 * @jobs: all so far, in order
 */
struct fake {
	int init_error;
	int attach_res;
	int job_res;
	struct allreduce_info info;
	bool hold;
	bool deaf;
	unsigned int interrupts;
	unsigned int refusals;
	int register_error;
	int broken;
	unsigned int in_flight;
	unsigned int most;
	unsigned int n_jobs;
	unsigned int n_cancels;
	unsigned int n_infos;
	int rings;
	char attached[ALLREDUCE_NAME_SIZE];
	struct fake_job jobs[FAKE_JOBS_MAX];
};

extern struct fake fake;

void fake_reset(void);

/* End the oldest job in flight. */
void fake_run_one(void);

#endif /* _FAKE_URING_H */
