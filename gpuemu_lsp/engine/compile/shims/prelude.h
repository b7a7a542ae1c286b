// Declarations that nvcc makes implicitly and NVRTC does not. nvcc includes cuda_runtime.h before every file and, through
// it, most of the host's C and C++ library; this is the device-usable part, included before the user's first line.
//
// Constants are members of templates, instantiated only where they are used: NVRTC emits all others into the PTX.
#pragma once

// CUDA's headers define int64_t as long long and int_fast32_t as int, the host's define both as long.
#ifdef GPUEMU_LONG_LONG
#define GPUEMU_INT64 long long
typedef short int_fast16_t;
typedef int int_fast32_t;
typedef unsigned short uint_fast16_t;
typedef unsigned int uint_fast32_t;
#else
#define GPUEMU_INT64 long
typedef long int_fast16_t;
typedef long int_fast32_t;
typedef unsigned long uint_fast16_t;
typedef unsigned long uint_fast32_t;
#endif

// ---- <stdint.h>, <stddef.h>, <sys/types.h> on 64-bit Linux ----------------------------------------------------------
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef GPUEMU_INT64 int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned GPUEMU_INT64 uint64_t;
typedef int8_t int_least8_t;
typedef int16_t int_least16_t;
typedef int32_t int_least32_t;
typedef int64_t int_least64_t;
typedef uint8_t uint_least8_t;
typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t;
typedef uint64_t uint_least64_t;
typedef int8_t int_fast8_t;
typedef int64_t int_fast64_t;
typedef uint8_t uint_fast8_t;
typedef uint64_t uint_fast64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
typedef long ssize_t;
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;

#define INT8_MIN (-128)
#define INT16_MIN (-32767 - 1)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807L - 1)
#define INT8_MAX (127)
#define INT16_MAX (32767)
#define INT32_MAX (2147483647)
#define INT64_MAX (9223372036854775807L)
#define UINT8_MAX (255)
#define UINT16_MAX (65535)
#define UINT32_MAX (4294967295U)
#define UINT64_MAX (18446744073709551615UL)
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define INTMAX_MAX INT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define PTRDIFF_MIN INT64_MIN
#define PTRDIFF_MAX INT64_MAX
#define SIZE_MAX UINT64_MAX
#define INT8_C(c) c
#define INT16_C(c) c
#define INT32_C(c) c
#define INT64_C(c) c##L
#define UINT8_C(c) c
#define UINT16_C(c) c
#define UINT32_C(c) c##U
#define UINT64_C(c) c##UL
#ifndef offsetof
#define offsetof(type, member) ((size_t) & reinterpret_cast<const volatile char&>(((type*)0)->member))
#endif

// ---- <limits.h> -----------------------------------------------------------------------------------------------------
#define CHAR_BIT 8
#define CLOCKS_PER_SEC 1000000L
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1L)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1LL)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL

// ---- <float.h> ------------------------------------------------------------------------------------------------------
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX_10_EXP 38
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_TRUE_MIN 1.401298464e-45F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MAX_10_EXP 308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_TRUE_MIN 4.9406564584124654e-324
#define DBL_EPSILON 2.2204460492503131e-16

// ---- <math.h> -------------------------------------------------------------------------------------------------------
#define INFINITY (__builtin_bit_cast(float, 0x7f800000))
#define NAN (__builtin_bit_cast(float, 0x7fc00000))
#define HUGE_VALF INFINITY
#define HUGE_VAL (__builtin_bit_cast(double, 0x7ff0000000000000LL))
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_PIf 3.14159265358979323846f

// ---- <stdlib.h>, <string.h> -----------------------------------------------------------------------------------------
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

#ifdef GPUEMU_LONG_LONG
// With GPUEMU_LONG_LONG size_t and uint64_t are distinct types, under nvcc one: mixed calls need overloads.
#define GPUEMU_MIXED(name, sign, A, B)                                                             \
  __host__ __device__ constexpr B name(A a, B b) { return (B)a sign b ? (B)a : b; }                \
  __host__ __device__ constexpr B name(B a, A b) { return a sign(B) b ? a : (B)b; }
#define GPUEMU_MIXED_ALL                                     \
  GPUEMU_MIXED(min, <, long, long long)                      \
  GPUEMU_MIXED(max, >, long, long long)                      \
  GPUEMU_MIXED(min, <, unsigned long, unsigned long long)    \
  GPUEMU_MIXED(max, >, unsigned long, unsigned long long)
GPUEMU_MIXED_ALL
namespace std {
GPUEMU_MIXED_ALL
}
#undef GPUEMU_MIXED_ALL
#undef GPUEMU_MIXED
#endif

namespace std {

using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::int_fast32_t;
using ::uint_fast32_t;
using ::intptr_t;
using ::uintptr_t;
using ::intmax_t;
using ::uintmax_t;
using ::size_t;
using ::ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
enum class byte : unsigned char {};

using ::memcpy;
using ::memset;
using ::printf;

// ---- <type_traits> --------------------------------------------------------------------------------------------------
template <class T, T v>
struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  __host__ __device__ constexpr operator T() const noexcept { return v; }
  __host__ __device__ constexpr T operator()() const noexcept { return v; }
};
template <bool v>
using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool c, class T = void>
using enable_if_t = typename enable_if<c, T>::type;
template <bool, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool c, class A, class B>
using conditional_t = typename conditional<c, A, B>::type;
template <class...>
using void_t = void;

template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
template <class T>
struct remove_volatile {
  using type = T;
};
template <class T>
struct remove_volatile<volatile T> {
  using type = T;
};
template <class T>
struct remove_cv {
  using type = typename remove_volatile<typename remove_const<T>::type>::type;
};
template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
struct remove_pointer {
  using type = T;
};
template <class T>
struct remove_pointer<T*> {
  using type = T;
};
template <class T>
struct remove_pointer<T* const> {
  using type = T;
};
template <class T>
struct add_const {
  using type = const T;
};
template <class T>
struct add_pointer {
  using type = typename remove_reference<T>::type*;
};
template <class T>
struct remove_extent {
  using type = T;
};
template <class T>
struct remove_extent<T[]> {
  using type = T;
};
template <class T, size_t n>
struct remove_extent<T[n]> {
  using type = T;
};
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
using remove_cv_t = typename remove_cv<T>::type;
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
using remove_pointer_t = typename remove_pointer<T>::type;
template <class T>
using remove_extent_t = typename remove_extent<T>::type;
template <class T>
using add_const_t = typename add_const<T>::type;
template <class T>
using add_pointer_t = typename add_pointer<T>::type;
template <class T>
struct remove_cvref {
  using type = remove_cv_t<remove_reference_t<T>>;
};
template <class T>
using remove_cvref_t = typename remove_cvref<T>::type;
template <class T>
struct decay {
  using type = remove_cvref_t<T>;
};
template <class T, size_t n>
struct decay<T[n]> {
  using type = T*;
};
template <class T>
using decay_t = typename decay<T>::type;
template <class T>
struct underlying_type {
  using type = __underlying_type(T);
};
template <class T>
using underlying_type_t = typename underlying_type<T>::type;
template <class T>
T&& declval() noexcept;

template <class, class>
inline constexpr bool is_same_v = false;
template <class T>
inline constexpr bool is_same_v<T, T> = true;
template <class T, class... Us>
inline constexpr bool _is_any_v = (is_same_v<remove_cv_t<T>, Us> || ...);
template <class T>
inline constexpr bool is_void_v = _is_any_v<T, void>;
template <class T>
inline constexpr bool is_floating_point_v = _is_any_v<T, float, double, long double>;
template <class T>
inline constexpr bool is_integral_v =
    _is_any_v<T, bool, char, signed char, unsigned char, wchar_t, char16_t, char32_t, short, unsigned short, int,
              unsigned int, long, unsigned long, long long, unsigned long long>;
template <class T>
inline constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <class T, bool = is_arithmetic_v<T>>
inline constexpr bool _is_signed_v = false;
template <class T>
inline constexpr bool _is_signed_v<T, true> = T(-1) < T(0);
template <class T>
inline constexpr bool is_signed_v = _is_signed_v<T>;
template <class T>
inline constexpr bool is_unsigned_v = is_arithmetic_v<T> && !is_signed_v<T>;
template <class>
inline constexpr bool is_const_v = false;
template <class T>
inline constexpr bool is_const_v<const T> = true;
template <class>
inline constexpr bool _is_pointer_v = false;
template <class T>
inline constexpr bool _is_pointer_v<T*> = true;
template <class T>
inline constexpr bool is_pointer_v = _is_pointer_v<remove_cv_t<T>>;
template <class>
inline constexpr bool is_lvalue_reference_v = false;
template <class T>
inline constexpr bool is_lvalue_reference_v<T&> = true;
template <class>
inline constexpr bool is_reference_v = false;
template <class T>
inline constexpr bool is_reference_v<T&> = true;
template <class T>
inline constexpr bool is_reference_v<T&&> = true;
template <class>
inline constexpr bool is_array_v = false;
template <class T>
inline constexpr bool is_array_v<T[]> = true;
template <class T, size_t n>
inline constexpr bool is_array_v<T[n]> = true;
template <class T>
inline constexpr bool is_enum_v = __is_enum(T);
template <class T>
inline constexpr bool is_class_v = __is_class(T);
template <class T>
inline constexpr bool is_union_v = __is_union(T);
template <class T>
inline constexpr bool is_empty_v = __is_empty(T);
template <class T>
inline constexpr bool is_trivial_v = __is_trivial(T);
template <class T>
inline constexpr bool is_standard_layout_v = __is_standard_layout(T);
template <class T>
inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
template <class B, class D>
inline constexpr bool is_base_of_v = __is_base_of(B, D);
template <class A, class B>
inline constexpr bool is_convertible_v = __is_convertible_to(A, B);
template <class T, class... Args>
inline constexpr bool is_constructible_v = __is_constructible(T, Args...);

template <class A, class B>
struct is_same : bool_constant<is_same_v<A, B>> {};
template <class T>
struct is_void : bool_constant<is_void_v<T>> {};
template <class T>
struct is_floating_point : bool_constant<is_floating_point_v<T>> {};
template <class T>
struct is_integral : bool_constant<is_integral_v<T>> {};
template <class T>
struct is_arithmetic : bool_constant<is_arithmetic_v<T>> {};
template <class T>
struct is_signed : bool_constant<is_signed_v<T>> {};
template <class T>
struct is_unsigned : bool_constant<is_unsigned_v<T>> {};
template <class T>
struct is_const : bool_constant<is_const_v<T>> {};
template <class T>
struct is_pointer : bool_constant<is_pointer_v<T>> {};
template <class T>
struct is_reference : bool_constant<is_reference_v<T>> {};
template <class T>
struct is_lvalue_reference : bool_constant<is_lvalue_reference_v<T>> {};
template <class T>
struct is_array : bool_constant<is_array_v<T>> {};
template <class T>
struct is_enum : bool_constant<is_enum_v<T>> {};
template <class T>
struct is_class : bool_constant<is_class_v<T>> {};
template <class T>
struct is_union : bool_constant<is_union_v<T>> {};
template <class T>
struct is_empty : bool_constant<is_empty_v<T>> {};
template <class T>
struct is_trivial : bool_constant<is_trivial_v<T>> {};
template <class T>
struct is_standard_layout : bool_constant<is_standard_layout_v<T>> {};
template <class T>
struct is_trivially_copyable : bool_constant<is_trivially_copyable_v<T>> {};
template <class B, class D>
struct is_base_of : bool_constant<is_base_of_v<B, D>> {};
template <class A, class B>
struct is_convertible : bool_constant<is_convertible_v<A, B>> {};
template <class T, class... Args>
struct is_constructible : bool_constant<is_constructible_v<T, Args...>> {};
template <class T>
struct alignment_of : integral_constant<size_t, alignof(T)> {};
template <class... Ts>
struct conjunction : bool_constant<sizeof...(Ts) == 0> {};
template <class T, class... Rest>
struct conjunction<T, Rest...> : conditional_t<bool(T::value), conjunction<Rest...>, bool_constant<!sizeof(T*)>> {};
template <class... Ts>
struct disjunction : bool_constant<sizeof...(Ts) != 0> {};
template <class T, class... Rest>
struct disjunction<T, Rest...> : conditional_t<bool(T::value), bool_constant<!!sizeof(T*)>, disjunction<Rest...>> {};
template <class T>
struct negation : bool_constant<!bool(T::value)> {};
template <class... Ts>
inline constexpr bool conjunction_v = conjunction<Ts...>::value;
template <class... Ts>
inline constexpr bool disjunction_v = disjunction<Ts...>::value;
template <class T>
inline constexpr bool negation_v = negation<T>::value;

template <class T>
struct make_unsigned {
  using type = T;
};
template <> struct make_unsigned<char> { using type = unsigned char; };
template <> struct make_unsigned<signed char> { using type = unsigned char; };
template <> struct make_unsigned<short> { using type = unsigned short; };
template <> struct make_unsigned<int> { using type = unsigned int; };
template <> struct make_unsigned<long> { using type = unsigned long; };
template <> struct make_unsigned<long long> { using type = unsigned long long; };
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
struct make_signed {
  using type = T;
};
template <> struct make_signed<char> { using type = signed char; };
template <> struct make_signed<unsigned char> { using type = signed char; };
template <> struct make_signed<unsigned short> { using type = short; };
template <> struct make_signed<unsigned int> { using type = int; };
template <> struct make_signed<unsigned long> { using type = long; };
template <> struct make_signed<unsigned long long> { using type = long long; };
template <class T>
using make_signed_t = typename make_signed<T>::type;

}  // namespace std

// ---- <cmath>: integer and mixed arguments are promoted to double (C++17 [cmath.syn]); NVRTC calls them ambiguous -----
#define GPUEMU_UNARY(name)                                                                       \
  template <class T>                                                                             \
  __host__ __device__ inline std::enable_if_t<std::is_integral_v<T>, double> name(T x) {         \
    return name(double(x));                                                                      \
  }
#define GPUEMU_BINARY(name)                                                                                        \
  template <class T, class U>                                                                                      \
  __host__ __device__ inline std::enable_if_t<std::is_arithmetic_v<T> && std::is_arithmetic_v<U>, double> name(    \
      T x, U y) {                                                                                                  \
    return name(double(x), double(y));                                                                             \
  }
GPUEMU_UNARY(acos)
GPUEMU_UNARY(acosh)
GPUEMU_UNARY(asin)
GPUEMU_UNARY(asinh)
GPUEMU_UNARY(atan)
GPUEMU_UNARY(atanh)
GPUEMU_UNARY(cbrt)
GPUEMU_UNARY(ceil)
GPUEMU_UNARY(cos)
GPUEMU_UNARY(cosh)
GPUEMU_UNARY(erf)
GPUEMU_UNARY(erfc)
GPUEMU_UNARY(exp)
GPUEMU_UNARY(exp2)
GPUEMU_UNARY(expm1)
GPUEMU_UNARY(fabs)
GPUEMU_UNARY(floor)
GPUEMU_UNARY(lgamma)
GPUEMU_UNARY(log)
GPUEMU_UNARY(log10)
GPUEMU_UNARY(log1p)
GPUEMU_UNARY(log2)
GPUEMU_UNARY(logb)
GPUEMU_UNARY(nearbyint)
GPUEMU_UNARY(rint)
GPUEMU_UNARY(round)
GPUEMU_UNARY(sin)
GPUEMU_UNARY(sinh)
GPUEMU_UNARY(sqrt)
GPUEMU_UNARY(tan)
GPUEMU_UNARY(tanh)
GPUEMU_UNARY(tgamma)
GPUEMU_UNARY(trunc)
GPUEMU_BINARY(atan2)
GPUEMU_BINARY(copysign)
GPUEMU_BINARY(fdim)
GPUEMU_BINARY(fmax)
GPUEMU_BINARY(fmin)
GPUEMU_BINARY(fmod)
GPUEMU_BINARY(hypot)
GPUEMU_BINARY(nextafter)
GPUEMU_BINARY(pow)
GPUEMU_BINARY(remainder)
#undef GPUEMU_UNARY
#undef GPUEMU_BINARY

namespace std {

using ::abs;
using ::acos;
using ::acosf;
using ::acosh;
using ::acoshf;
using ::asin;
using ::asinf;
using ::asinh;
using ::asinhf;
using ::atan;
using ::atan2;
using ::atan2f;
using ::atanf;
using ::atanh;
using ::atanhf;
using ::cbrt;
using ::cbrtf;
using ::ceil;
using ::ceilf;
using ::copysign;
using ::copysignf;
using ::cos;
using ::cosf;
using ::cosh;
using ::coshf;
using ::erf;
using ::erfc;
using ::erfcf;
using ::erff;
using ::exp;
using ::exp2;
using ::exp2f;
using ::expf;
using ::expm1;
using ::expm1f;
using ::fabs;
using ::fabsf;
using ::fdim;
using ::fdimf;
using ::floor;
using ::floorf;
using ::fma;
using ::fmaf;
using ::fmax;
using ::fmaxf;
using ::fmin;
using ::fminf;
using ::fmod;
using ::fmodf;
using ::frexp;
using ::frexpf;
using ::hypot;
using ::hypotf;
using ::ilogb;
using ::ilogbf;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::ldexp;
using ::ldexpf;
using ::lgamma;
using ::lgammaf;
using ::llrint;
using ::llrintf;
using ::llround;
using ::llroundf;
using ::log;
using ::log10;
using ::log10f;
using ::log1p;
using ::log1pf;
using ::log2;
using ::log2f;
using ::logb;
using ::logbf;
using ::logf;
using ::lrint;
using ::lrintf;
using ::lround;
using ::lroundf;
using ::modf;
using ::modff;
using ::nearbyint;
using ::nearbyintf;
using ::nextafter;
using ::nextafterf;
using ::pow;
using ::powf;
using ::remainder;
using ::remainderf;
using ::remquo;
using ::remquof;
using ::rint;
using ::rintf;
using ::round;
using ::roundf;
using ::scalbn;
using ::scalbnf;
using ::signbit;
using ::sin;
using ::sinf;
using ::sinh;
using ::sinhf;
using ::sqrt;
using ::sqrtf;
using ::tan;
using ::tanf;
using ::tanh;
using ::tanhf;
using ::tgamma;
using ::tgammaf;
using ::trunc;
using ::truncf;

// ---- <algorithm>, <utility>, <functional> ---------------------------------------------------------------------------
template <class T>
__host__ __device__ constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
__host__ __device__ constexpr T min(initializer_list<T> list) {
  const T* best = list.begin();
  for (const T* item = list.begin(); item != list.end(); ++item) best = *item < *best ? item : best;
  return *best;
}
template <class T>
__host__ __device__ constexpr T max(initializer_list<T> list) {
  const T* best = list.begin();
  for (const T* item = list.begin(); item != list.end(); ++item) best = *best < *item ? item : best;
  return *best;
}
template <class T, class Less>
__host__ __device__ constexpr const T& min(const T& a, const T& b, Less less) {
  return less(b, a) ? b : a;
}
template <class T, class Less>
__host__ __device__ constexpr const T& max(const T& a, const T& b, Less less) {
  return less(a, b) ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& clamp(const T& v, const T& low, const T& high) {
  return v < low ? low : high < v ? high : v;
}
template <class T>
__host__ __device__ constexpr void swap(T& a, T& b) {
  T held = static_cast<T&&>(a);
  a = static_cast<T&&>(b);
  b = static_cast<T&&>(held);
}
template <class A, class B>
struct pair {
  A first;
  B second;
};
template <class A, class B>
__host__ __device__ constexpr pair<decay_t<A>, decay_t<B>> make_pair(A&& a, B&& b) {
  return {static_cast<A&&>(a), static_cast<B&&>(b)};
}
template <class T, T... values>
struct integer_sequence {
  using value_type = T;
  __host__ __device__ static constexpr size_t size() noexcept { return sizeof...(values); }
};
template <size_t... values>
using index_sequence = integer_sequence<size_t, values...>;
// Concatenation of halves: the instantiation depth is logarithmic in n.
template <class T, class, class>
struct _join;
template <class T, T... a, T... b>
struct _join<T, integer_sequence<T, a...>, integer_sequence<T, b...>> {
  using type = integer_sequence<T, a..., (T(sizeof...(a)) + b)...>;
};
template <class T, size_t n>
struct _count : _join<T, typename _count<T, n / 2>::type, typename _count<T, n - n / 2>::type> {};
template <class T>
struct _count<T, 0> {
  using type = integer_sequence<T>;
};
template <class T>
struct _count<T, 1> {
  using type = integer_sequence<T, T(0)>;
};
template <class T, T n>
using make_integer_sequence = typename _count<T, size_t(n)>::type;
template <size_t n>
using make_index_sequence = make_integer_sequence<size_t, n>;
template <class... T>
using index_sequence_for = make_index_sequence<sizeof...(T)>;
template <class T, class U = T>
__host__ __device__ constexpr T exchange(T& value, U&& next) {
  T held = static_cast<T&&>(value);
  value = static_cast<U&&>(next);
  return held;
}
template <class To, class From>
__host__ __device__ constexpr To bit_cast(const From& value) noexcept {
  return __builtin_bit_cast(To, value);
}
template <size_t size, size_t alignment = (size > 8 ? 16 : size > 4 ? 8 : size > 2 ? 4 : size)>
struct aligned_storage {
  struct type {
    alignas(alignment) unsigned char data[size];
  };
};
template <size_t size, size_t alignment = (size > 8 ? 16 : size > 4 ? 8 : size > 2 ? 4 : size)>
using aligned_storage_t = typename aligned_storage<size, alignment>::type;
#define GPUEMU_OPERATION(name, expression)                                                                  \
  template <class T = void>                                                                                 \
  struct name {                                                                                             \
    __host__ __device__ constexpr auto operator()(const T& a, const T& b) const { return expression; }      \
  };                                                                                                        \
  template <>                                                                                               \
  struct name<void> {                                                                                       \
    template <class A, class B>                                                                             \
    __host__ __device__ constexpr auto operator()(const A& a, const B& b) const { return expression; }      \
  };
GPUEMU_OPERATION(plus, a + b)
GPUEMU_OPERATION(minus, a - b)
GPUEMU_OPERATION(multiplies, a * b)
GPUEMU_OPERATION(divides, a / b)
GPUEMU_OPERATION(less, a < b)
GPUEMU_OPERATION(greater, a > b)
GPUEMU_OPERATION(less_equal, a <= b)
GPUEMU_OPERATION(greater_equal, a >= b)
GPUEMU_OPERATION(equal_to, a == b)
GPUEMU_OPERATION(not_equal_to, a != b)
#undef GPUEMU_OPERATION

// ---- <array> --------------------------------------------------------------------------------------------------------
template <class T, size_t n>
struct array {
  T elements[n ? n : 1];
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;
  __host__ __device__ constexpr T& operator[](size_t i) { return elements[i]; }
  __host__ __device__ constexpr const T& operator[](size_t i) const { return elements[i]; }
  __host__ __device__ constexpr T* data() { return elements; }
  __host__ __device__ constexpr const T* data() const { return elements; }
  __host__ __device__ constexpr size_t size() const { return n; }
  __host__ __device__ constexpr T* begin() { return elements; }
  __host__ __device__ constexpr T* end() { return elements + n; }
  __host__ __device__ constexpr const T* begin() const { return elements; }
  __host__ __device__ constexpr const T* end() const { return elements + n; }
  __host__ __device__ constexpr void fill(const T& value) {
    for (size_t i = 0; i < n; ++i) elements[i] = value;
  }
};

// ---- declared, not defined: types in signatures of host functions ----------------------------------------------------
template <class C>
struct char_traits;
template <class T>
class allocator;
template <class C, class Traits = char_traits<C>, class Allocator = allocator<C>>
class basic_string;
template <class C, class Traits = char_traits<C>>
class basic_ostream;
template <class C, class Traits = char_traits<C>>
class basic_istream;
template <class T, class Allocator = allocator<T>>
class vector;
using string = basic_string<char>;
using ostream = basic_ostream<char>;
using istream = basic_istream<char>;

// ---- <limits> -------------------------------------------------------------------------------------------------------
template <class T, bool integer, bool floating>
struct _limits {
  static constexpr bool is_specialized = false;
};
template <class T>
struct _limits<T, true, false> {
  static constexpr bool is_specialized = true, is_integer = true, is_exact = true, has_infinity = false;
  static constexpr bool has_quiet_NaN = false, is_iec559 = false, is_bounded = true, is_signed = T(-1) < T(0);
  static constexpr int radix = 2, digits = is_same_v<T, bool> ? 1 : int(8 * sizeof(T)) - is_signed;
  static constexpr int digits10 = digits * 30103 / 100000;
  __host__ __device__ static constexpr T max() noexcept { return T(~0ULL >> (64 - digits)); }
  __host__ __device__ static constexpr T min() noexcept { return is_signed ? T(-max() - 1) : T(0); }
  __host__ __device__ static constexpr T lowest() noexcept { return min(); }
  __host__ __device__ static constexpr T epsilon() noexcept { return T(0); }
  __host__ __device__ static constexpr T infinity() noexcept { return T(0); }
  __host__ __device__ static constexpr T quiet_NaN() noexcept { return T(0); }
};
template <class T>
struct _limits<T, false, true> {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, is_signed = true;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_iec559 = true;
  static constexpr bool is_bounded = true, _single = sizeof(T) == 4;
  static constexpr int radix = 2, digits = _single ? 24 : 53, digits10 = _single ? 6 : 15;
  static constexpr int max_digits10 = _single ? 9 : 17, max_exponent = _single ? 128 : 1024;
  static constexpr int min_exponent = _single ? -125 : -1021;
  __host__ __device__ static constexpr T max() noexcept { return _single ? T(FLT_MAX) : T(DBL_MAX); }
  __host__ __device__ static constexpr T min() noexcept { return _single ? T(FLT_MIN) : T(DBL_MIN); }
  __host__ __device__ static constexpr T lowest() noexcept { return -max(); }
  __host__ __device__ static constexpr T epsilon() noexcept { return _single ? T(FLT_EPSILON) : T(DBL_EPSILON); }
  __host__ __device__ static constexpr T denorm_min() noexcept { return _single ? T(FLT_TRUE_MIN) : T(DBL_TRUE_MIN); }
  __host__ __device__ static constexpr T round_error() noexcept { return T(0.5); }
  __host__ __device__ static constexpr T infinity() noexcept { return INFINITY; }
  __host__ __device__ static constexpr T quiet_NaN() noexcept { return NAN; }
  __host__ __device__ static constexpr T signaling_NaN() noexcept { return NAN; }
};
template <class T>
struct numeric_limits : _limits<remove_cv_t<T>, is_integral_v<T>, is_floating_point_v<T>> {};

}  // namespace std
