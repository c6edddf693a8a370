// What the C++ halves of all ops of {{ cookiecutter.package.name }} share.
//
// All of it stands on PyTorch's stable ABI, torch/csrc/stable: a library built once runs with newer
// releases of torch, and with any Python. Include no other header of PyTorch: those of ATen and
// c10, and torch/extension.h, tie a library to the one release that it was built with, and take
// several times as long to compile.

#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace ops {

using torch::headeronly::DeviceType;
using torch::headeronly::ScalarType;
using torch::stable::Device;
using torch::stable::Tensor;

using Shape = std::vector<int64_t>;

// Calls an op of PyTorch by its name and overload, with every argument of its schema in order.
// The stable ABI carries no argument of type Scalar: take an overload that takes a Tensor.
template <typename Result, typename... Arguments>
Result call(const char* name, const char* overload, const Arguments&... arguments) {
  std::array<StableIValue, sizeof...(Arguments)> stack{torch::stable::detail::from(arguments)...};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Result>(stack[0]);
}

// Every tensor that was given: of Tensors, optional ones, and lists of either.

inline void collect(std::vector<Tensor>& found, const Tensor& tensor) {
  found.push_back(tensor);
}

template <typename Item>
void collect(std::vector<Tensor>& found, const std::optional<Item>& given) {
  if (given) {
    collect(found, *given);
  }
}

template <typename Item>
void collect(std::vector<Tensor>& found, const std::vector<Item>& given) {
  for (const Item& item : given) {
    collect(found, item);
  }
}

template <typename... Given>
std::vector<Tensor> tensors(const Given&... given) {
  std::vector<Tensor> found;
  (collect(found, given), ...);
  return found;
}

// Metadata: what a result is before it is computed. The fake kernels say the same in Python.

inline Shape shape_of(const Tensor& tensor) {
  return Shape(tensor.sizes().begin(), tensor.sizes().end());
}

struct Metadata {
  Shape shape;
  ScalarType dtype;
  Device device;
};

inline Metadata metadata_of(const Tensor& tensor) {
  return {shape_of(tensor), tensor.scalar_type(), tensor.device()};
}

// The size of a dimension, which may be counted from the end.
inline int64_t size(const Tensor& tensor, int64_t dimension) {
  const int64_t count = tensor.dim();
  STD_TORCH_CHECK(
      -count <= dimension && dimension < count,
      "dimension ", dimension, " is asked of a tensor that has ", count);
  return tensor.size(dimension < 0 ? dimension + count : dimension);
}

// Division and remainder as in Python, for negative numbers as well.

inline int64_t floor_divide(int64_t one, int64_t other) {
  STD_TORCH_CHECK(other != 0, "a size is divided by zero");
  const int64_t quotient = one / other;
  return quotient - ((one % other != 0 && (one < 0) != (other < 0)) ? 1 : 0);
}

inline int64_t remainder(int64_t one, int64_t other) {
  return one - floor_divide(one, other) * other;
}

// The shape to which all broadcast.
inline Shape broadcast_shapes(const std::vector<Tensor>& given) {
  Shape shape;
  for (const Tensor& tensor : given) {
    const Shape other = shape_of(tensor);
    if (other.size() > shape.size()) {
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    }
    for (size_t n = 0; n < other.size(); ++n) {
      int64_t& size = shape[shape.size() - 1 - n];
      const int64_t wanted = other[other.size() - 1 - n];
      STD_TORCH_CHECK(
          size == wanted || size == 1 || wanted == 1,
          "sizes ", size, " and ", wanted, " do not broadcast together");
      size = size == 1 ? wanted : size;
    }
  }
  return shape;
}

// The shape to which all broadcast, the dtype to which they promote, and the device of the first.
inline Metadata broadcast_metadata(const std::vector<Tensor>& given) {
  ScalarType dtype = given.at(0).scalar_type();
  for (const Tensor& tensor : given) {
    dtype = call<ScalarType>("aten::promote_types", "", dtype, tensor.scalar_type());
  }
  return {broadcast_shapes(given), dtype, given.at(0).device()};
}

// Dtype and device of the first that is given; float32 on the CPU where none is.
inline std::pair<ScalarType, Device> first_place(const std::vector<Tensor>& given) {
  if (given.empty()) {
    return {ScalarType::Float, Device(DeviceType::CPU)};
  }
  return {given[0].scalar_type(), given[0].device()};
}

inline Tensor empty_result(const Metadata& metadata) {
  return torch::stable::empty(metadata.shape, metadata.dtype, std::nullopt, metadata.device);
}

// What the contracts of the ops need and PyTorch does not check.

inline std::string text(const Shape& shape) {
  std::string found = "(";
  for (size_t n = 0; n < shape.size(); ++n) {
    found += (n ? ", " : "") + std::to_string(shape[n]);
  }
  return found + (shape.size() == 1 ? ",)" : ")");
}

// Raises for a tensor that cannot take the result.
inline void check_buffer(
    const char* op, const char* name, const Tensor& buffer, const Metadata& wanted) {
  STD_TORCH_CHECK(
      shape_of(buffer) == wanted.shape,
      op, ": ", name, " has shape ", text(shape_of(buffer)),
      ", but the result has ", text(wanted.shape));
  STD_TORCH_CHECK(
      buffer.scalar_type() == wanted.dtype,
      op, ": ", name, " has another dtype than the result");
  STD_TORCH_CHECK(
      buffer.device().type() == wanted.device.type(),
      op, ": ", name, " is on another device than the result");
}

// Raises for a tensor that a kernel for the CPU cannot read. An op that PyTorch may call without
// any tensor is not told apart by devices.
inline void check_on_cpu(const char* op, const std::vector<Tensor>& given) {
  for (const Tensor& tensor : given) {
    STD_TORCH_CHECK(tensor.is_cpu(), op, " has no kernel for the device of an argument");
  }
}

// Tells autograd that tensors were written, so that backward refuses what was saved before. An op
// of PyTorch that writes does so itself; a kernel that writes to memory does not.
inline void count_writes(const std::vector<Tensor>& written) {
  for (const Tensor& tensor : written) {
    // A view of no element counts with all of the tensor's memory.
    Tensor nothing = call<Tensor>(
        "aten::as_strided", "", tensor, Shape{0}, Shape{1}, std::optional<int64_t>());
    torch::stable::zero_(nothing);
  }
}

// For the placeholders: numbers made of arguments.

template <typename Number>
double sum_of(const std::vector<Number>& numbers) {
  double sum = 0;
  for (const Number number : numbers) {
    sum += number;
  }
  return sum;
}

// Characters, not bytes, as Python counts them.
inline int64_t length(const std::string& text) {
  return std::count_if(
      text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
}

inline int64_t name_length(const Device& device) {
  switch (device.type()) {
    case DeviceType::CPU:
    case DeviceType::XPU:
    case DeviceType::MPS:
      return 3;
    case DeviceType::CUDA:
    case DeviceType::Meta:
      return 4;
    default:
      return 11;
  }
}

inline int64_t itemsize(ScalarType dtype) {
  return static_cast<int64_t>(aoti_torch_dtype_element_size(
      torch::stable::detail::to<int32_t>(torch::stable::detail::from(dtype))));
}

// For the placeholders: numbers in the shape of a tensor, whatever its dtype, layout and device.
// They are copied in and out; a kernel of yours works on the memory of the tensors.

struct Values {
  Shape shape;
  std::vector<double> numbers;
};

inline Values values(const Tensor& tensor, const Shape& shape) {
  Tensor copy = torch::stable::to(
      tensor, ScalarType::Double, std::nullopt, Device(DeviceType::CPU));
  copy = torch::stable::contiguous(call<Tensor>("aten::expand", "", copy, shape, false));
  const double* memory = copy.const_data_ptr<double>();
  return {shape, std::vector<double>(memory, memory + copy.numel())};
}

inline Values constant(double number) {
  return Values{Shape(), {number}};
}

inline Values zeros(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    count *= size;
  }
  return {shape, std::vector<double>(count)};
}

// Adds ``weight`` times each element of a tensor.
inline void add(Values& total, double weight, const Tensor& tensor) {
  const Values given = values(tensor, total.shape);
  for (size_t n = 0; n < given.numbers.size(); ++n) {
    total.numbers[n] += weight * given.numbers[n];
  }
}

// Adds ``weight`` times the sum of all elements of a tensor.
inline void add_sum(Values& total, double weight, const Tensor& tensor) {
  const double sum = sum_of(values(tensor, shape_of(tensor)).numbers);
  for (double& number : total.numbers) {
    number += weight * sum;
  }
}

inline void scale(Values& total, double factor) {
  for (double& number : total.numbers) {
    number *= factor;
  }
}

// Writes ``multiple`` times the numbers to a tensor.
inline void write(const Tensor& target, double multiple, const Values& total) {
  Values scaled = total;
  scale(scaled, multiple);
  Tensor memory = torch::stable::empty(
      scaled.shape, ScalarType::Double, std::nullopt, Device(DeviceType::CPU));
  std::copy(scaled.numbers.begin(), scaled.numbers.end(), memory.mutable_data_ptr<double>());
  Tensor handle = target;
  torch::stable::copy_(handle, memory);
}

// A tensor of those numbers, times ``multiple``, for which ``mask`` is positive.
inline Tensor selected(double multiple, const Values& total, const Tensor& mask) {
  const Values masking = values(mask, total.shape);
  Values found = zeros({0});
  for (size_t n = 0; n < total.numbers.size(); ++n) {
    if (masking.numbers[n] > 0) {
      found.numbers.push_back(total.numbers[n]);
    }
  }
  found.shape[0] = static_cast<int64_t>(found.numbers.size());
  Tensor result = empty_result({found.shape, mask.scalar_type(), mask.device()});
  write(result, multiple, found);
  return result;
}

}  // namespace ops
