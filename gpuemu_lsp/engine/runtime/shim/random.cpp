// Host generators of cuRAND: numbers of the distributions that are asked for, the same for a seed in every run.
#include <curand.h>

#include <random>

#include "product.h"

using namespace gpuemu;

struct curandGenerator_st {
    std::mt19937_64 engine{0};
    cudaStream_t stream = nullptr;
    bool on_device = true;
};

namespace {

template <class T, class Distribution>
curandStatus_t generate(curandGenerator_t generator, T* out, size_t n, Distribution distribution) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    if (generator->on_device) count_library_call();
    size_t size = n * sizeof(T);
    if (generator->on_device && !access(out, size, size, 1, true, generator->stream)) return CURAND_STATUS_LAUNCH_FAILURE;
    for (size_t i = 0; i < n; i++) out[i] = T(distribution(generator->engine));
    return CURAND_STATUS_SUCCESS;
}

// In (0, 1], as cuRAND has it.
template <class T>
struct Uniform {
    template <class Engine>
    T operator()(Engine& engine) {
        return T(1) - std::generate_canonical<T, sizeof(T) == 4 ? 24 : 53>(engine);
    }
};

}  // namespace

API curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t) {
    *generator = new curandGenerator_st;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
    curandCreateGenerator(generator, type);
    (*generator)->on_device = false;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
    delete generator;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandGetVersion(int* version) {
    *version = 10400;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
    generator->stream = stream;
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
    generator->engine.seed(seed);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
    generator->engine.discard(offset);
    return CURAND_STATUS_SUCCESS;
}
API curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t) { return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t, unsigned) { return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }
API curandStatus_t curandGenerate(curandGenerator_t generator, unsigned* out, size_t n) {
    return generate(generator, out, n, [](std::mt19937_64& engine) { return unsigned(engine() >> 32); });
}
API curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* out, size_t n) {
    return generate(generator, out, n, Uniform<float>{});
}
API curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* out, size_t n) {
    return generate(generator, out, n, Uniform<double>{});
}
API curandStatus_t curandGenerateNormal(curandGenerator_t generator, float* out, size_t n, float mean, float deviation) {
    return generate(generator, out, n, std::normal_distribution<float>(mean, deviation));
}
API curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double* out, size_t n, double mean,
                                              double deviation) {
    return generate(generator, out, n, std::normal_distribution<double>(mean, deviation));
}
API curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float* out, size_t n, float mean,
                                           float deviation) {
    return generate(generator, out, n, std::lognormal_distribution<float>(mean, deviation));
}
API curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double* out, size_t n, double mean,
                                                 double deviation) {
    return generate(generator, out, n, std::lognormal_distribution<double>(mean, deviation));
}
API curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned* out, size_t n, double lambda) {
    return generate(generator, out, n, std::poisson_distribution<unsigned>(lambda));
}
