// The program's own check on a driver whose fma() rounds twice, as -cl-mad-enable allows: the
// device must be refused by its name. Exit code 77 where there is no OpenCL device.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "kernels/cuda/runtime.h"
#include "kernels/opencl/prelude.h"
#include "node/engine/card/card.h"
#include "node/engine/card/card_check.h"

namespace hearth::kernels::cuda::opencl {

const char* prelude() {
  static const std::string text = [] {
    std::ifstream file(HEARTH_OPENCL_PRELUDE_FILE);
    return std::string(std::istreambuf_iterator<char>(file), {}) +
           "\n#define fma(a, b, c) ((a) * (b) + (c))\n";
  }();
  return text.c_str();
}

}  // namespace hearth::kernels::cuda::opencl

int main() {
  const auto count = hearth::kernels::cuda::device_count();
  if (!count.ok() || *count == 0) return 77;
  const auto device = hearth::node::open_card({});
  if (!device.ok()) {
    std::printf("%s\n", device.error().message.c_str());
    return 1;
  }
  const hearth::Status checked =
      hearth::node::check_device(**device, "llama", {hearth::model::TensorType::kQ4_1});
  const std::string message = checked.ok() ? "accepted" : checked.error().message;
  std::printf("%s\n", message.c_str());
  const bool named = message.find((*device)->name()) != std::string::npos;
  return !checked.ok() && checked.error().code == hearth::ErrorCode::kNumeric && named ? 0 : 1;
}
