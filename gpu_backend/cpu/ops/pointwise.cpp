// Additions, copies, casts and fills.

#include <algorithm>
#include <cstring>

#include "gpu_backend/communicate/transfer.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"

namespace rehearse {

namespace {

/// a, b, sum; or, where the task accumulates, as many terms as sums in any order: the i-th sum gets the i-th term.
template <class T>
struct Add {
  static void run(const OperatorCall& c) {
    if (c.task->accumulates) return accumulate(c);
    shared_rows<3>({&c.operand(0), &c.operand(1), &c.operand(2)}, [&](const Index&, const auto& at, std::int64_t n) {
      const T *a = c.operand(0).as<T>() + at[0], *b = c.operand(1).as<T>() + at[1];
      for (std::int64_t i = 0; i < n; ++i) c.operand(2).as<T>()[at[2] + i] = a[i] + b[i];
    });
  }
  static void accumulate(const OperatorCall& c) {
    std::vector<const TensorView*> terms, sums;
    for (const TensorView& x : c.operands) (x.access == Access::read ? terms : sums).push_back(&x);
    for (std::size_t i = 0; i < sums.size(); ++i)
      for (std::int64_t j = 0; j < sums[i]->elements(); ++j) sums[i]->as<T>()[j] += terms.at(i)->as<T>()[j];
  }
};

/// a, b, a + factor * b
template <class T>
struct AddScaled {
  static void run(const OperatorCall& c) {
    const T factor = static_cast<T>(c.task->scalars.at(0));
    shared_rows<3>({&c.operand(0), &c.operand(1), &c.operand(2)}, [&](const Index&, const auto& at, std::int64_t n) {
      const T *a = c.operand(0).as<T>() + at[0], *b = c.operand(1).as<T>() + at[1];
      for (std::int64_t i = 0; i < n; ++i) c.operand(2).as<T>()[at[2] + i] = a[i] + factor * b[i];
    });
  }
};
/// x, factor * x
template <class T>
struct Scaled {
  static void run(const OperatorCall& c) {
    for (std::int64_t i = 0; i < c.operand(0).elements(); ++i)
      c.operand(1).as<T>()[i] = static_cast<T>(c.task->scalars.at(0)) * c.operand(0).as<T>()[i];
  }
};

/// Pairs of what is read and what is written, in either order. All real numbers of a run have one type.
template <class T>
struct Cast {
  static void run(const OperatorCall& c) {
    for (std::size_t i = 0; i + 1 < c.operands.size(); i += 2) {
      const bool writes_first = c.operand(i).writes();
      const TensorView &from = c.operand(writes_first ? i + 1 : i), &to = c.operand(writes_first ? i : i + 1);
      std::copy_n(from.as<T>(), from.elements(), to.as<T>());
    }
  }
};

/// whole, slice: the elements that the slice holds
template <class T>
struct Copy {
  static void run(const OperatorCall& c) {
    const TensorView &from = c.operand(0), &to = c.operand(1);
    std::byte* at = to.data;
    pack(from.data, common(*from.held, *to.held), size_of(from.type), at);
  }
};

/// [sample, token, head, d] of few heads, the same of a multiple of them: each head stands there as often as query
/// heads read it.
template <class T>
struct RepeatHeads {
  static void run(const OperatorCall& c) {
    each_pair(c.operand(0), c.operand(1), [&](std::int64_t few, std::int64_t many, std::int64_t d) {
      std::copy_n(c.operand(0).as<T>() + few, d, c.operand(1).as<T>() + many);
    });
  }
  /// Calls f(offset in `few`, offset in `many`, d) for every head of `many`.
  template <class F>
  static void each_pair(const TensorView& few, const TensorView& many, const F& f) {
    const std::int64_t d = few.extent(3), heads = few.extent(2), copies = many.extent(2) / heads,
                       rows = few.elements() / (heads * d);
    for (std::int64_t i = 0; i < rows * heads * copies; ++i) f(i / copies * d, i * d, d);
  }
};

/// The other way round: the sum of a head's copies.
template <class T>
struct SumHeads {
  static void run(const OperatorCall& c) {
    const TensorView &many = c.operand(0), &few = c.operand(1);
    std::fill_n(few.as<T>(), few.elements(), T{0});
    RepeatHeads<T>::each_pair(few, many, [&](std::int64_t at, std::int64_t from, std::int64_t d) {
      for (std::int64_t i = 0; i < d; ++i) few.as<T>()[at + i] += many.as<T>()[from + i];
    });
  }
};

/// What it reads is read no further.
template <class T>
struct End {
  static void run(const OperatorCall&) {}
};

/// Everything it writes becomes zero.
template <class T>
struct Zeros {
  static void run(const OperatorCall& c) {
    for (const TensorView& x : c.operands)
      std::memset(x.data, 0, static_cast<std::size_t>(x.elements()) * size_of(x.type));
  }
};

[[maybe_unused]] const bool registered_pointwise =
    cpu_operators().add({"add", "sum of two", {}, both<Add>()}) &&
    cpu_operators().add({"add.scaled", "sum of two, the second times a factor", {}, both<AddScaled>()}) &&
    cpu_operators().add({"scale.scaled", "times a factor", {}, both<Scaled>()}) &&
    cpu_operators().add({"cast", "to another type", {}, both<Cast>()}) &&
    cpu_operators().add({"cast.from_master", "master weights to the model's", {}, both<Cast>()}) &&
    cpu_operators().add({"copy", "a slice of a whole", {}, both<Copy>()}) &&
    cpu_operators().add({"copy.repeat_heads", "keys or values once for every query head", {}, both<RepeatHeads>()}) &&
    cpu_operators().add({"copy.sum_heads", "their gradients added up", {}, both<SumHeads>()}) &&
    cpu_operators().add({"copy.end", "nothing: a pass ends", {}, both<End>()}) &&
    cpu_operators().add({"fill.zeros", "zeros", {}, both<Zeros>()});

}  // namespace

}  // namespace rehearse
