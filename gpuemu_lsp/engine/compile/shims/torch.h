// The part of PyTorch's C++ headers that device code uses, for NVRTC, which cannot compile ATen's host code.
//
// Layouts and arithmetic are those of c10/util (Half, BFloat16, complex), torch/headeronly/core/TensorAccessor.h,
// ATen/AccumulateType.h, ATen/OpMathType.h and ATen/cuda (Atomic.cuh, DeviceUtils.cuh, NumericLimits.cuh,
// detail/TensorInfo.cuh, detail/KernelUtils.h). Names of host code that signatures mention are declared only.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// ---- c10/macros/Macros.h, c10/cuda/CUDAMacros.h ---------------------------------------------------------------------
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define AT_HOST_DEVICE __host__ __device__
#define AT_DEVICE __device__
#define AT_HOST __host__
#define C10_API
#define C10_EXPORT
#define TORCH_API
#define TORCH_CUDA_CU_API
#define TORCH_CUDA_CPP_API
#define C10_RESTRICT __restrict
#define C10_UNUSED [[maybe_unused]]
#define C10_NODISCARD [[nodiscard]]
#define C10_ALWAYS_INLINE __forceinline__
#define C10_NOINLINE __noinline__
#define C10_LIKELY(expression) (__builtin_expect(static_cast<bool>(expression), 1))
#define C10_UNLIKELY(expression) (__builtin_expect(static_cast<bool>(expression), 0))
#define C10_WARP_SIZE 32
#define CUDA_MAX_THREADS_PER_BLOCK 1024
#define CUDA_THREADS_PER_BLOCK_FALLBACK 256
#define C10_MAX_THREADS_PER_BLOCK(value) ((value) <= 1024 ? (value) : 256)
#define C10_MIN_BLOCKS_PER_SM(threads, blocks) ((threads) * (blocks) <= 2048 ? (blocks) : (2048 + (threads) - 1) / (threads))
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(C10_MAX_THREADS_PER_BLOCK(threads))
#define C10_LAUNCH_BOUNDS_2(threads, blocks) \
  __launch_bounds__(C10_MAX_THREADS_PER_BLOCK(threads), C10_MIN_BLOCKS_PER_SM(threads, blocks))
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_ASSERT2(condition) assert(condition)
#define CUDA_KERNEL_ASSERT_MSG(condition, message) assert(condition)
#define CUDA_KERNEL_ASSERT_PRINTF(condition, message, ...) assert(condition)
#define TORCH_DSA_KERNEL_ARGS
#define TORCH_DSA_KERNEL_ARGS_PASS
// The step is a product of 32-bit unsigned integers, and the index may be narrower than the counter, as in PyTorch.
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                        \
  int64_t _i_n_d_e_x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;    \
  for (index_type i = _i_n_d_e_x; _i_n_d_e_x < (n); _i_n_d_e_x += blockDim.x * gridDim.x, i = _i_n_d_e_x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace c10 {

// ---- 16-bit floating-point types: arithmetic in float, rounded to nearest even --------------------------------------
#define GPUEMU_TORCH_NARROW(name, native, to_bits, to_float, make, bits_of)                                     \
  struct alignas(2) name {                                                                                       \
    unsigned short x;                                                                                             \
    struct from_bits_t {};                                                                                        \
    __host__ __device__ static constexpr from_bits_t from_bits() { return from_bits_t(); }                        \
    name() = default;                                                                                             \
    __host__ __device__ constexpr name(unsigned short bits, from_bits_t) : x(bits) {}                             \
    __host__ __device__ inline name(float value) : x(bits_of(to_bits(value))) {}                                  \
    __host__ __device__ inline name(const native& value) : x(bits_of(value)) {}                                   \
    __host__ __device__ inline operator float() const { return to_float(make(x)); }                               \
    __host__ __device__ inline operator native() const { return make(x); }                                        \
  };                                                                                                              \
  __host__ __device__ inline name operator+(const name& a, const name& b) { return float(a) + float(b); }        \
  __host__ __device__ inline name operator-(const name& a, const name& b) { return float(a) - float(b); }        \
  __host__ __device__ inline name operator*(const name& a, const name& b) { return float(a) * float(b); }        \
  __host__ __device__ inline name operator/(const name& a, const name& b) { return float(a) / float(b); }        \
  __host__ __device__ inline name operator-(const name& a) { return -float(a); }                                  \
  __host__ __device__ inline name& operator+=(name& a, const name& b) { return a = a + b; }                       \
  __host__ __device__ inline name& operator-=(name& a, const name& b) { return a = a - b; }                       \
  __host__ __device__ inline name& operator*=(name& a, const name& b) { return a = a * b; }                       \
  __host__ __device__ inline name& operator/=(name& a, const name& b) { return a = a / b; }                       \
  GPUEMU_TORCH_MIXED(name, float, float)                                                                          \
  GPUEMU_TORCH_MIXED(name, double, double)                                                                        \
  GPUEMU_TORCH_WITH_INTEGER(name, int)                                                                            \
  GPUEMU_TORCH_WITH_INTEGER(name, int64_t)                                                                        \
  __host__ __device__ inline float& operator+=(float& a, const name& b) { return a += float(b); }                 \
  __host__ __device__ inline float& operator-=(float& a, const name& b) { return a -= float(b); }                 \
  __host__ __device__ inline float& operator*=(float& a, const name& b) { return a *= float(b); }                 \
  __host__ __device__ inline float& operator/=(float& a, const name& b) { return a /= float(b); }
#define GPUEMU_TORCH_MIXED(name, other, result)                                                          \
  __host__ __device__ inline result operator+(name a, other b) { return result(float(a)) + b; }          \
  __host__ __device__ inline result operator-(name a, other b) { return result(float(a)) - b; }          \
  __host__ __device__ inline result operator*(name a, other b) { return result(float(a)) * b; }          \
  __host__ __device__ inline result operator/(name a, other b) { return result(float(a)) / b; }          \
  __host__ __device__ inline result operator+(other a, name b) { return a + result(float(b)); }          \
  __host__ __device__ inline result operator-(other a, name b) { return a - result(float(b)); }          \
  __host__ __device__ inline result operator*(other a, name b) { return a * result(float(b)); }          \
  __host__ __device__ inline result operator/(other a, name b) { return a / result(float(b)); }
#define GPUEMU_TORCH_WITH_INTEGER(name, other)                                                             \
  __host__ __device__ inline name operator+(name a, other b) { return a + static_cast<name>(float(b)); }   \
  __host__ __device__ inline name operator-(name a, other b) { return a - static_cast<name>(float(b)); }   \
  __host__ __device__ inline name operator*(name a, other b) { return a * static_cast<name>(float(b)); }   \
  __host__ __device__ inline name operator/(name a, other b) { return a / static_cast<name>(float(b)); }   \
  __host__ __device__ inline name operator+(other a, name b) { return static_cast<name>(float(a)) + b; }   \
  __host__ __device__ inline name operator-(other a, name b) { return static_cast<name>(float(a)) - b; }   \
  __host__ __device__ inline name operator*(other a, name b) { return static_cast<name>(float(a)) * b; }   \
  __host__ __device__ inline name operator/(other a, name b) { return static_cast<name>(float(a)) / b; }

namespace gpuemu {
__host__ __device__ inline __half make_half(unsigned short bits) { return __half(__half_raw{bits}); }
__host__ __device__ inline __nv_bfloat16 make_bfloat16(unsigned short bits) {
  return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
__host__ __device__ inline unsigned short bits_of(__half value) { return static_cast<__half_raw>(value).x; }
__host__ __device__ inline unsigned short bits_of(__nv_bfloat16 value) {
  return static_cast<__nv_bfloat16_raw>(value).x;
}
}  // namespace gpuemu

GPUEMU_TORCH_NARROW(Half, __half, __float2half_rn, __half2float, gpuemu::make_half, gpuemu::bits_of)
GPUEMU_TORCH_NARROW(BFloat16, __nv_bfloat16, __float2bfloat16_rn, __bfloat162float, gpuemu::make_bfloat16, gpuemu::bits_of)
// PyTorch leaves comparisons to the conversion to float. They are exact matches here, since CUDA's operators of __half
// would make them ambiguous in a build without -D__CUDA_NO_HALF_OPERATORS__.
#define GPUEMU_TORCH_COMPARISON(name, op)                                                                            \
  __host__ __device__ inline bool operator op(const name& a, const name& b) { return float(a) op float(b); }         \
  template <class T>                                                                                                  \
  __host__ __device__ inline std::enable_if_t<std::is_arithmetic_v<T>, bool> operator op(const name& a, T b) {       \
    return float(a) op b;                                                                                             \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  __host__ __device__ inline std::enable_if_t<std::is_arithmetic_v<T>, bool> operator op(T a, const name& b) {       \
    return a op float(b);                                                                                             \
  }
#define GPUEMU_TORCH_COMPARISONS(op) GPUEMU_TORCH_COMPARISON(Half, op) GPUEMU_TORCH_COMPARISON(BFloat16, op)
GPUEMU_TORCH_COMPARISONS(<)
GPUEMU_TORCH_COMPARISONS(<=)
GPUEMU_TORCH_COMPARISONS(>)
GPUEMU_TORCH_COMPARISONS(>=)
GPUEMU_TORCH_COMPARISONS(==)
GPUEMU_TORCH_COMPARISONS(!=)
#undef GPUEMU_TORCH_COMPARISONS
#undef GPUEMU_TORCH_COMPARISON
#undef GPUEMU_TORCH_NARROW
#undef GPUEMU_TORCH_MIXED
#undef GPUEMU_TORCH_WITH_INTEGER

struct qint8 { using underlying = int8_t; int8_t val_; };
struct quint8 { using underlying = uint8_t; uint8_t val_; };
struct qint32 { using underlying = int; int val_; };

// ---- c10/util/complex.h ---------------------------------------------------------------------------------------------
template <class T>
struct alignas(sizeof(T) * 2) complex {
  using value_type = T;
  T real_ = T(0);
  T imag_ = T(0);
  constexpr complex() = default;
  __host__ __device__ constexpr complex(const T& re, const T& im = T()) : real_(re), imag_(im) {}
  template <class U>
  __host__ __device__ explicit constexpr complex(const complex<U>& other) : real_(other.real_), imag_(other.imag_) {}
  __host__ __device__ constexpr T real() const { return real_; }
  __host__ __device__ constexpr T imag() const { return imag_; }
  __host__ __device__ constexpr void real(T value) { real_ = value; }
  __host__ __device__ constexpr void imag(T value) { imag_ = value; }
  __host__ __device__ constexpr complex& operator=(T re) { real_ = re; imag_ = 0; return *this; }
  __host__ __device__ constexpr complex& operator+=(const complex& b) { real_ += b.real_; imag_ += b.imag_; return *this; }
  __host__ __device__ constexpr complex& operator-=(const complex& b) { real_ -= b.real_; imag_ -= b.imag_; return *this; }
  __host__ __device__ constexpr complex& operator*=(const complex& b) {
    T a = real_, i = imag_;
    real_ = a * b.real_ - i * b.imag_;
    imag_ = a * b.imag_ + i * b.real_;
    return *this;
  }
  __host__ __device__ constexpr complex& operator*=(T b) { real_ *= b; imag_ *= b; return *this; }
  __host__ __device__ constexpr complex& operator/=(T b) { real_ /= b; imag_ /= b; return *this; }
};
template <class T> __host__ __device__ constexpr complex<T> operator+(complex<T> a, const complex<T>& b) { return a += b; }
template <class T> __host__ __device__ constexpr complex<T> operator-(complex<T> a, const complex<T>& b) { return a -= b; }
template <class T> __host__ __device__ constexpr complex<T> operator*(complex<T> a, const complex<T>& b) { return a *= b; }
template <class T> __host__ __device__ constexpr complex<T> operator*(complex<T> a, T b) { return a *= b; }
template <class T> __host__ __device__ constexpr complex<T> operator*(T a, complex<T> b) { return b *= a; }
template <class T> __host__ __device__ constexpr complex<T> operator/(complex<T> a, T b) { return a /= b; }
template <class T> __host__ __device__ constexpr complex<T> operator-(const complex<T>& a) { return {-a.real_, -a.imag_}; }
template <class T> __host__ __device__ constexpr bool operator==(const complex<T>& a, const complex<T>& b) {
  return a.real_ == b.real_ && a.imag_ == b.imag_;
}

// ---- names of host code ---------------------------------------------------------------------------------------------
class TensorImpl;
class Device;
class Scalar;
template <class T> class ArrayRef;
using IntArrayRef = ArrayRef<int64_t>;
enum class ScalarType : int8_t {
  Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8, QInt32,
  BFloat16, QUInt4x2, QUInt2x4, Bits1x8, Bits2x4, Bits4x2, Bits8, Bits16, Float8_e5m2, Float8_e4m3fn, Float8_e5m2fnuz,
  Float8_e4m3fnuz, Undefined
};
enum class DeviceType : int8_t { CPU, CUDA };

// ---- c10/cuda/CUDAMathCompat.h --------------------------------------------------------------------------------------
namespace cuda::compat {
#define GPUEMU_TORCH_MATH(name)                                                             \
  __host__ __device__ inline float name(float x) { return ::name##f(x); }                   \
  __host__ __device__ inline double name(double x) { return ::name(x); }
GPUEMU_TORCH_MATH(ceil) GPUEMU_TORCH_MATH(cos) GPUEMU_TORCH_MATH(exp) GPUEMU_TORCH_MATH(expm1) GPUEMU_TORCH_MATH(floor)
GPUEMU_TORCH_MATH(log) GPUEMU_TORCH_MATH(log1p) GPUEMU_TORCH_MATH(rsqrt) GPUEMU_TORCH_MATH(sin) GPUEMU_TORCH_MATH(sqrt)
GPUEMU_TORCH_MATH(tan) GPUEMU_TORCH_MATH(tanh) GPUEMU_TORCH_MATH(normcdf) GPUEMU_TORCH_MATH(erf) GPUEMU_TORCH_MATH(round)
#undef GPUEMU_TORCH_MATH
__host__ __device__ inline float abs(float x) { return ::fabsf(x); }
__host__ __device__ inline double abs(double x) { return ::fabs(x); }
__host__ __device__ inline float pow(float x, float y) { return ::powf(x, y); }
__host__ __device__ inline double pow(double x, double y) { return ::pow(x, y); }
__host__ __device__ inline float div(float x, float y) { return __fdividef(x, y); }
__host__ __device__ inline double div(double x, double y) { return x / y; }
template <class T> __host__ __device__ inline T max(T x, T y) { return x > y ? x : y; }
template <class T> __host__ __device__ inline T min(T x, T y) { return x < y ? x : y; }
}  // namespace cuda::compat

}  // namespace c10

namespace at {
using namespace c10;
class Tensor;
namespace cuda {
using namespace c10::cuda;
}

// ---- ATen/AccumulateType.h, ATen/OpMathType.h -----------------------------------------------------------------------
namespace gpuemu {
template <class T> struct accumulate { using type = T; };
template <> struct accumulate<Half> { using type = float; };
template <> struct accumulate<BFloat16> { using type = float; };
template <> struct accumulate<__half> { using type = float; };
template <> struct accumulate<__nv_bfloat16> { using type = float; };
template <> struct accumulate<int8_t> { using type = int64_t; };
template <> struct accumulate<uint8_t> { using type = int64_t; };
template <> struct accumulate<char> { using type = int64_t; };
template <> struct accumulate<int16_t> { using type = int64_t; };
template <> struct accumulate<int32_t> { using type = int64_t; };
template <class T> struct opmath { using type = T; };
template <> struct opmath<Half> { using type = float; };
template <> struct opmath<BFloat16> { using type = float; };
template <> struct opmath<c10::complex<Half>> { using type = c10::complex<float>; };
}  // namespace gpuemu
template <class T, bool is_cuda> struct AccumulateType : gpuemu::accumulate<T> {};
template <class T, bool is_cuda> using acc_type = typename AccumulateType<T, is_cuda>::type;
template <class T> using OpMathType = gpuemu::opmath<T>;
template <class T> using opmath_type = typename gpuemu::opmath<T>::type;

// ---- ATen/core/TensorAccessor.h -------------------------------------------------------------------------------------
template <class T> struct DefaultPtrTraits { typedef T* PtrType; };
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class index_t = int64_t>
class TensorAccessorBase {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  __host__ __device__ TensorAccessorBase(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
  __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
  __host__ __device__ PtrType data() { return data_; }
  __host__ __device__ const PtrType data() const { return data_; }

 protected:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class index_t = int64_t>
class TensorAccessor : public TensorAccessorBase<T, N, PtrTraits, index_t> {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  __host__ __device__ TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : TensorAccessorBase<T, N, PtrTraits, index_t>(data, sizes, strides) {}
  __host__ __device__ TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
    return {this->data_ + this->strides_[0] * i, this->sizes_ + 1, this->strides_ + 1};
  }
};
template <class T, template <class> class PtrTraits, class index_t>
class TensorAccessor<T, 1, PtrTraits, index_t> : public TensorAccessorBase<T, 1, PtrTraits, index_t> {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  __host__ __device__ TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : TensorAccessorBase<T, 1, PtrTraits, index_t>(data, sizes, strides) {}
  __host__ __device__ T& operator[](index_t i) const { return this->data_[this->strides_[0] * i]; }
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class index_t = int64_t>
class GenericPackedTensorAccessorBase {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
  __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
  __host__ __device__ PtrType data() { return data_; }
  __host__ __device__ const PtrType data() const { return data_; }

 protected:
  PtrType data_;
  index_t sizes_[N];
  index_t strides_[N];
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class index_t = int64_t>
class GenericPackedTensorAccessor : public GenericPackedTensorAccessorBase<T, N, PtrTraits, index_t> {
 public:
  __host__ __device__ TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
    return {this->data_ + this->strides_[0] * i, this->sizes_ + 1, this->strides_ + 1};
  }
};
template <class T, template <class> class PtrTraits, class index_t>
class GenericPackedTensorAccessor<T, 1, PtrTraits, index_t>
    : public GenericPackedTensorAccessorBase<T, 1, PtrTraits, index_t> {
 public:
  __host__ __device__ T& operator[](index_t i) const { return this->data_[this->strides_[0] * i]; }
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, index_t>;

// ---- ATen/cuda/NumericLimits.cuh, ATen/NumericUtils.h, ATen/ceil_div.h ----------------------------------------------
template <class T>
struct numeric_limits {
  __host__ __device__ static T lowest() { return std::numeric_limits<T>::lowest(); }
  __host__ __device__ static T max() { return std::numeric_limits<T>::max(); }
  __host__ __device__ static T lower_bound() {
    if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::lowest();
  }
  __host__ __device__ static T upper_bound() {
    if constexpr (std::numeric_limits<T>::has_infinity) return std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::max();
  }
};
template <class T> __host__ __device__ inline bool _isnan(T value) {
  if constexpr (std::is_integral_v<T>) return false;
  else return value != value;
}
template <class T> __host__ __device__ inline bool _isinf(T value) {
  if constexpr (std::is_integral_v<T>) return false;
  else return ::isinf(static_cast<float>(value));
}
template <class T, class U> __host__ __device__ constexpr T ceil_div(T a, U b) { return (a + b - 1) / b; }
template <class T, class U> __host__ __device__ constexpr T round_up(T a, U b) { return ceil_div(a, b) * b; }

namespace detail {
template <class T, int size_>
struct Array {
  T data[size_];
  __host__ __device__ T operator[](int i) const { return data[i]; }
  __host__ __device__ T& operator[](int i) { return data[i]; }
  static constexpr int size() { return size_; }
};
}  // namespace detail

// ---- ATen/cuda/detail -----------------------------------------------------------------------------------------------
namespace cuda::detail {
#define MAX_TENSORINFO_DIMS 25
template <class T, class IndexType>
struct TensorInfo {
  T* data;
  IndexType sizes[MAX_TENSORINFO_DIMS];
  IndexType strides[MAX_TENSORINFO_DIMS];
  int dims;
  __host__ __device__ bool isContiguous() const { return dims == 1 && strides[0] == 1; }
};
template <class T, class IndexType, int Dims>
struct IndexToOffset {
  __host__ __device__ static IndexType get(IndexType index, const TensorInfo<T, IndexType>& info) {
    IndexType offset = 0;
    for (int i = (Dims == -1 ? info.dims : Dims) - 1; i > 0; --i) {
      offset += index % info.sizes[i] * info.strides[i];
      index /= info.sizes[i];
    }
    return offset + index * info.strides[0];
  }
};
}  // namespace cuda::detail

struct PhiloxCudaState {
  union Payload {
    uint64_t val;
    int64_t* ptr;
  };
  Payload seed_;
  Payload offset_;
  uint32_t offset_intragraph_;
  bool captured_;
};

// ---- ATen/native/cuda/KernelUtils.cuh -------------------------------------------------------------------------------
namespace native {}
}  // namespace at

namespace torch {
using namespace at;
namespace cuda {
using namespace at::cuda;
}
}  // namespace torch
namespace caffe2 {
using namespace c10;
}

namespace std {
template <>
struct numeric_limits<c10::Half> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11, radix = 2, max_exponent = 16, min_exponent = -13;
  __host__ __device__ static constexpr c10::Half min() { return {0x0400, c10::Half::from_bits()}; }
  __host__ __device__ static constexpr c10::Half lowest() { return {0xFBFF, c10::Half::from_bits()}; }
  __host__ __device__ static constexpr c10::Half max() { return {0x7BFF, c10::Half::from_bits()}; }
  __host__ __device__ static constexpr c10::Half epsilon() { return {0x1400, c10::Half::from_bits()}; }
  __host__ __device__ static constexpr c10::Half infinity() { return {0x7C00, c10::Half::from_bits()}; }
  __host__ __device__ static constexpr c10::Half quiet_NaN() { return {0x7E00, c10::Half::from_bits()}; }
};
template <>
struct numeric_limits<c10::BFloat16> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8, radix = 2, max_exponent = 128, min_exponent = -125;
  __host__ __device__ static constexpr c10::BFloat16 min() { return {0x0080, c10::BFloat16::from_bits()}; }
  __host__ __device__ static constexpr c10::BFloat16 lowest() { return {0xFF7F, c10::BFloat16::from_bits()}; }
  __host__ __device__ static constexpr c10::BFloat16 max() { return {0x7F7F, c10::BFloat16::from_bits()}; }
  __host__ __device__ static constexpr c10::BFloat16 epsilon() { return {0x3C00, c10::BFloat16::from_bits()}; }
  __host__ __device__ static constexpr c10::BFloat16 infinity() { return {0x7F80, c10::BFloat16::from_bits()}; }
  __host__ __device__ static constexpr c10::BFloat16 quiet_NaN() { return {0x7FC0, c10::BFloat16::from_bits()}; }
};
}  // namespace std

// ---- ATen/cuda/DeviceUtils.cuh --------------------------------------------------------------------------------------
__device__ __forceinline__ unsigned int ACTIVE_MASK() { return __activemask(); }
__device__ __forceinline__ void WARP_SYNC(unsigned mask = 0xffffffff) { __syncwarp(mask); }
__device__ __forceinline__ unsigned int WARP_BALLOT(int predicate, unsigned int mask = 0xffffffff) {
  return __ballot_sync(mask, predicate);
}
#define GPUEMU_TORCH_SHUFFLE(name, function, type)                                                                       \
  template <class T>                                                                                                      \
  __device__ __forceinline__ T name(T value, type lane, int width = warpSize, unsigned int mask = 0xffffffff) {           \
    return function(mask, value, lane, width);                                                                             \
  }                                                                                                                        \
  __device__ __forceinline__ c10::Half name(c10::Half value, type lane, int width = warpSize, unsigned mask = ~0u) {       \
    return {static_cast<unsigned short>(function(mask, static_cast<unsigned>(value.x), lane, width)),                      \
            c10::Half::from_bits()};                                                                                       \
  }                                                                                                                        \
  __device__ __forceinline__ c10::BFloat16 name(c10::BFloat16 value, type lane, int width = warpSize, unsigned mask = ~0u) { \
    return {static_cast<unsigned short>(function(mask, static_cast<unsigned>(value.x), lane, width)),                      \
            c10::BFloat16::from_bits()};                                                                                   \
  }
GPUEMU_TORCH_SHUFFLE(WARP_SHFL, __shfl_sync, int)
GPUEMU_TORCH_SHUFFLE(WARP_SHFL_XOR, __shfl_xor_sync, int)
GPUEMU_TORCH_SHUFFLE(WARP_SHFL_UP, __shfl_up_sync, unsigned int)
GPUEMU_TORCH_SHUFFLE(WARP_SHFL_DOWN, __shfl_down_sync, unsigned int)
#undef GPUEMU_TORCH_SHUFFLE
template <class T> __device__ __forceinline__ T doLdg(const T* pointer) { return __ldg(pointer); }

// ---- ATen/cuda/Atomic.cuh: types that CUDA has no atomic operation for are updated by compare-and-swap of a word -----
namespace at::gpuemu {
template <class T, class Operation>
__device__ inline T update(T* address, Operation operation) {
  if constexpr (sizeof(T) >= 4) {
    using Word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
    Word* word = reinterpret_cast<Word*>(address);
    Word old = *word, assumed;
    do {
      assumed = old;
      T next = operation(*reinterpret_cast<T*>(&assumed));
      old = atomicCAS(word, assumed, *reinterpret_cast<Word*>(&next));
    } while (assumed != old);
    return *reinterpret_cast<T*>(&old);
  } else {
    size_t offset = reinterpret_cast<size_t>(address) & 3;
    unsigned* word = reinterpret_cast<unsigned*>(reinterpret_cast<char*>(address) - offset);
    unsigned shift = offset * 8, mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift, old = *word, assumed;
    using Narrow = std::conditional_t<sizeof(T) == 1, unsigned char, unsigned short>;
    Narrow bits;
    do {
      assumed = old;
      bits = static_cast<Narrow>((old & mask) >> shift);
      T next = operation(*reinterpret_cast<T*>(&bits));
      old = atomicCAS(word, assumed, (old & ~mask) | static_cast<unsigned>(*reinterpret_cast<Narrow*>(&next)) << shift);
    } while (assumed != old);
    bits = static_cast<Narrow>((old & mask) >> shift);
    return *reinterpret_cast<T*>(&bits);
  }
}
template <class T>
constexpr bool adds_natively = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, float> ||
                               std::is_same_v<T, double> || std::is_same_v<T, unsigned long long>;
}  // namespace at::gpuemu
template <class T>
__device__ inline T gpuAtomicAdd(T* address, T value) {
  if constexpr (at::gpuemu::adds_natively<T>) return atomicAdd(address, value);
  else if constexpr (std::is_same_v<T, c10::Half>) return atomicAdd(reinterpret_cast<__half*>(address), __half(value));
  else return at::gpuemu::update(address, [value](T old) { return static_cast<T>(old + value); });
}
template <class T> __device__ inline void gpuAtomicAddNoReturn(T* address, T value) { gpuAtomicAdd(address, value); }
template <class T> __device__ inline T gpuAtomicMul(T* address, T value) {
  return at::gpuemu::update(address, [value](T old) { return static_cast<T>(old * value); });
}
template <class T> __device__ inline T gpuAtomicMax(T* address, T value) {
  return at::gpuemu::update(address, [value](T old) { return old < value || at::_isnan(value) ? value : old; });
}
template <class T> __device__ inline T gpuAtomicMin(T* address, T value) {
  return at::gpuemu::update(address, [value](T old) { return value < old || at::_isnan(value) ? value : old; });
}
__device__ inline c10::Half atomicAdd(c10::Half* address, c10::Half value) { return gpuAtomicAdd(address, value); }
__device__ inline c10::BFloat16 atomicAdd(c10::BFloat16* address, c10::BFloat16 value) { return gpuAtomicAdd(address, value); }
__device__ inline int64_t atomicAdd(int64_t* address, int64_t value) {
  return static_cast<int64_t>(
      atomicAdd(reinterpret_cast<unsigned long long*>(address), static_cast<unsigned long long>(value)));
}
__device__ inline uint8_t atomicAdd(uint8_t* address, uint8_t value) { return gpuAtomicAdd(address, value); }
__device__ inline int8_t atomicAdd(int8_t* address, int8_t value) { return gpuAtomicAdd(address, value); }
__device__ inline int16_t atomicAdd(int16_t* address, int16_t value) { return gpuAtomicAdd(address, value); }
