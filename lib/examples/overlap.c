// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * overlap RING [STEPS] [LAYERS] [COUNT]: the communication of data-parallel training
 * hidden behind its computation, after DeAR (decoupled all-reduce).
 *
 * Each layer's gradients are added up over the members in two halves, in place, on
 * one registered buffer:
 *
 *   backward, last layer first:  compute the layer's gradients,
 *                                start its reduce_scatter
 *   forward, first layer first:  (start all allgathers, each as its layer's
 *                                reduce_scatter has ended)
 *                                wait for the layer's allgather,
 *                                update its weights, compute
 *
 * So the reduce_scatter of a layer runs while the layers before it are computed, and
 * its allgather while those before it are computed in the next step. Together they
 * give bit for bit what an allreduce would.
 *
 * The gradients are small integers, so that their sums are exact, and the weights at
 * the end are known: each member checks all of them.
 */
#include <allreduce-uring.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STEPS_MAX	512	/* 255 * 64 members * 512 steps < 2^24: exact in f32 */
#define LAYERS_MAX	1024
#define COUNT_MAX	(1UL << 24)
#define AREA_MAX	(1UL << 30)	/* io_uring's limit for a registered buffer */

/* Rounds for each element: the weight of the "computation". */
#define ROUNDS		16

/**
 * struct model - what is trained
 * @aru: the ring
 * @steps: how many
 * @layers: how many
 * @count: parameters of a layer
 * @block: of a layer, what one member reduces
 * @padded: elements of a layer in @gradients: a block for each member
 * @gradients: the registered buffer
 * @weights: the parameters
 * @scatter: reduce_scatter of each layer, while it is under way
 * @gather: allgather of each layer, while it is under way
 * @signal: output of the last layer
 * @computed: seconds
 * @waited: seconds
 */
struct model {
	struct aru *aru;
	unsigned long steps;
	unsigned long layers;
	unsigned long count;
	unsigned long block;
	unsigned long padded;
	float *gradients;
	float *weights;
	struct aru_request **scatter;
	struct aru_request **gather;
	volatile float signal;
	double computed;
	double waited;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static int failed(struct model *m, const char *what, unsigned long layer, int error)
{
	const char *why = aru_refusal(m->aru), *broke = "";

	if (!*why)
		aru_ring_error(m->aru, NULL, &broke);
	fprintf(stderr, "overlap: %s of layer %lu: %s%s%s%s\n", what, layer,
		aru_strerror(error), *why || *broke ? ": " : "", why, broke);
	return error;
}

/* ---- the computation ------------------------------------------------------ */

/* The gradient that a member finds: an integer from 0 to 255. */
static unsigned int gradient(unsigned int rank, unsigned long step, unsigned long layer,
			     unsigned long i)
{
	uint32_t x = (uint32_t)(i * 2654435761u + layer * 40503u + step * 97u + rank + 1);
	int round;

	for (round = 0; round < ROUNDS; round++) {
		x ^= x >> 15;
		x *= 0x2c1b3c6d;
	}
	return x >> 24;
}

static float *layer_gradients(struct model *m, unsigned long layer)
{
	return m->gradients + layer * m->padded;
}

static void compute_backward(struct model *m, unsigned long step, unsigned long layer)
{
	float *g = layer_gradients(m, layer);
	unsigned int rank = aru_rank(m->aru);
	unsigned long i;

	for (i = 0; i < m->count; i++)
		g[i] = (float)gradient(rank, step, layer, i);
	/* The last block is filled up: it would be summed with what was there. */
	for (; i < m->padded; i++)
		g[i] = 0;
}

/* Update the weights, and let a signal pass through them. */
static void compute_forward(struct model *m, unsigned long layer)
{
	const float *g = layer_gradients(m, layer);
	float *w = m->weights + layer * m->count;
	float signal = m->signal;
	unsigned long i;
	int round;

	for (i = 0; i < m->count; i++) {
		w[i] += g[i];
		for (round = 0; round < ROUNDS; round++)
			signal = 0.5f * signal + w[i];
	}
	m->signal = signal;
}

/* ---- the communication ---------------------------------------------------- */

static int wait_for(struct model *m, struct aru_request **req, const char *what,
		    unsigned long layer)
{
	double start = now();
	int ret;

	ret = aru_wait(*req, -1);
	m->waited += now() - start;
	*req = NULL;
	return ret ? failed(m, what, layer, ret) : 0;
}

static int start_scatter(struct model *m, unsigned long layer)
{
	float *g = layer_gradients(m, layer);
	int ret;

	/* In place: the result of this rank's block goes where the block is. */
	ret = aru_ireduce_scatter(m->aru, g, g + aru_rank(m->aru) * m->block, m->block,
				  ALLREDUCE_F32, ALLREDUCE_SUM, NULL,
				  &m->scatter[layer]);
	return ret ? failed(m, "reduce_scatter", layer, ret) : 0;
}

static int start_gather(struct model *m, unsigned long layer)
{
	float *g = layer_gradients(m, layer);
	int ret;

	ret = wait_for(m, &m->scatter[layer], "reduce_scatter", layer);
	if (ret)
		return ret;
	ret = aru_iallgather(m->aru, g + aru_rank(m->aru) * m->block, g, m->block,
			     ALLREDUCE_F32, NULL, &m->gather[layer]);
	return ret ? failed(m, "allgather", layer, ret) : 0;
}

/* ---- the loop ------------------------------------------------------------- */

static int backward(struct model *m, unsigned long step)
{
	unsigned long layer = m->layers;
	double start;
	int ret;

	while (layer--) {
		start = now();
		compute_backward(m, step, layer);
		m->computed += now() - start;
		ret = start_scatter(m, layer);
		if (ret)
			return ret;
	}
	return 0;
}

static int forward(struct model *m)
{
	unsigned long layer;
	double start;
	int ret;

	for (layer = 0; layer < m->layers; layer++) {
		ret = start_gather(m, layer);
		if (ret)
			return ret;
	}
	for (layer = 0; layer < m->layers; layer++) {
		ret = wait_for(m, &m->gather[layer], "allgather", layer);
		if (ret)
			return ret;
		start = now();
		compute_forward(m, layer);
		m->computed += now() - start;
	}
	return 0;
}

static int train(struct model *m)
{
	unsigned long step;
	int ret;

	/* So that nobody's time counts the others' start. */
	ret = aru_barrier(m->aru, NULL);
	if (ret)
		return failed(m, "barrier before", 0, ret);
	for (step = 0; step < m->steps; step++) {
		ret = backward(m, step);
		if (!ret)
			ret = forward(m);
		if (ret)
			return ret;
	}
	return 0;
}

/* Weights that are not the sum of all members' gradients of all steps. */
static unsigned long check(const struct model *m)
{
	unsigned long layer, i, step, wrong = 0, sum;
	unsigned int rank;

	for (layer = 0; layer < m->layers; layer++) {
		for (i = 0; i < m->count; i++) {
			sum = 0;
			for (step = 0; step < m->steps; step++)
				for (rank = 0; rank < aru_size(m->aru); rank++)
					sum += gradient(rank, step, layer, i);
			wrong += m->weights[layer * m->count + i] != (float)sum;
		}
	}
	return wrong;
}

/* ---- memory, arguments ---------------------------------------------------- */

static int make(struct model *m)
{
	unsigned int size = aru_size(m->aru);
	struct iovec area;
	const char *why;
	int ret;

	m->block = (m->count + size - 1) / size;
	m->padded = m->block * size;
	area.iov_len = m->layers * m->padded * sizeof(float);
	if (area.iov_len > AREA_MAX) {
		fprintf(stderr, "overlap: %lu layers of %lu parameters are %zu bytes, more than %lu\n",
			m->layers, m->count, area.iov_len, AREA_MAX);
		return -EINVAL;
	}
	m->gradients = calloc(m->layers * m->padded, sizeof(float));
	m->weights = calloc(m->layers * m->count, sizeof(float));
	m->scatter = calloc(m->layers, sizeof(struct aru_request *));
	m->gather = calloc(m->layers, sizeof(struct aru_request *));
	if (!m->gradients || !m->weights || !m->scatter || !m->gather) {
		fprintf(stderr, "overlap: no memory\n");
		return -ENOMEM;
	}
	area.iov_base = m->gradients;
	ret = aru_register_buffers(m->aru, &area, 1);
	if (ret) {
		why = aru_refusal(m->aru);
		fprintf(stderr, "overlap: %zu bytes can't be registered, so each job pins them: %s%s%s\n",
			area.iov_len, aru_strerror(ret), *why ? ": " : "", why);
	}
	return 0;
}

static int run(struct model *m)
{
	unsigned long wrong;
	int ret;

	ret = make(m);
	if (!ret)
		ret = train(m);
	if (ret)
		return ret;
	wrong = check(m);
	printf("rank %u of %u: %lu steps, %lu layers of %lu f32: computed %.3f s, waited %.3f s, %lu wrong\n",
	       aru_rank(m->aru), aru_size(m->aru), m->steps, m->layers, m->count,
	       m->computed, m->waited, wrong);
	return wrong ? -EBADMSG : 0;
}

static int number(const char *name, const char *text, unsigned long max,
		  unsigned long *value)
{
	char *end;

	errno = 0;
	*value = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && *value >= 1 && *value <= max)
		return 0;
	fprintf(stderr, "overlap: %s \"%s\" is not a number from 1 to %lu\n", name, text, max);
	return -EINVAL;
}

int main(int argc, char **argv)
{
	struct model m = { .steps = 10, .layers = 8, .count = 65536 };
	int ret, closed;

	ARU_OPTS(aru_open_opts, opts);
	if (argc < 2 || argc > 5) {
		fprintf(stderr, "usage: overlap RING [STEPS] [LAYERS] [COUNT]\n");
		return 2;
	}
	if ((argc > 2 && number("STEPS", argv[2], STEPS_MAX, &m.steps)) ||
	    (argc > 3 && number("LAYERS", argv[3], LAYERS_MAX, &m.layers)) ||
	    (argc > 4 && number("COUNT", argv[4], COUNT_MAX, &m.count)))
		return 2;
	/* All of a step's jobs at once in the kernel: none waits for a call here. */
	opts.depth = (unsigned int)m.layers;
	ret = aru_open(&m.aru, argv[1], &opts);
	if (ret) {
		fprintf(stderr, "overlap: ring \"%s\": %s\n", argv[1], aru_strerror(ret));
		return 1;
	}
	ret = run(&m);
	closed = aru_close(m.aru);
	if (closed) {
		/* The kernel still has the buffers: they must stay until the end. */
		fprintf(stderr, "overlap: close: %s\n", aru_strerror(closed));
		return 1;
	}
	free(m.gradients);
	free(m.weights);
	free(m.scatter);
	free(m.gather);
	return ret ? 1 : 0;
}
