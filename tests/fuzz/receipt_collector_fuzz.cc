// What workers say to the coordinator's receipt desk: any bytes as claims and receipts, and true
// ones with any bits changed, in any order with requests that begin, end and are lost. Whatever
// they say, the log gets only what its books allow, and what waits is bounded.
//
// A step is one byte, its lower half what happens, its upper half to whom, and what that takes:
//   0, 1  claims, receipts: two bytes of length, then a message
//   2, 3  the true ones: three bytes, where a byte is changed (two) and by which bits (0: by none)
//   4 a request begins   5 is over   6 a node is lost   7 the pipeline is   8 a minute passes
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "ledger/books.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"

namespace {

using namespace hearth;
using coordinator::ReceiptCollector;
using testing::ReceiptStage;

constexpr std::int64_t kNow = 1'700'000'100;  // of the windows that stages play

struct PlayedClock final : Clock {
  TimePoint now() const override { return TimePoint{} + std::chrono::seconds(seconds); }
  std::int64_t unix_seconds() const override { return kNow + seconds; }
  std::int64_t seconds = 0;
};

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  unsigned byte() { return empty() ? 0U : data_[at_++]; }
  std::size_t word() {
    const std::size_t high = byte();
    return high << 8 | byte();
  }
  std::string bytes(std::size_t count) {
    count = std::min(count, size_ - at_);
    std::string out(reinterpret_cast<const char*>(data_ + at_), count);
    at_ += count;
    return out;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

class Play {
 public:
  explicit Play(Input input) : input_(input) {
    INVARIANT(books_.entries() == 0, "a new log");
    begin();
  }

  void run() {
    while (!input_.empty()) {
      step();
      for (ReceiptCollector::Message& message : desk_.take_messages()) {
        const auto windows = static_cast<std::uint32_t>(message.body.windows_size());
        INVARIANT(windows > 0 && windows <= limits::kReceiptsAsked, "what is asked is bounded");
        asked_[message.node] = std::move(message.body);
      }
      for (const Bytes& entry : desk_.take_entries()) {
        const Status allowed = books_.apply(entry);
        INVARIANT(allowed.ok(), "the log has what its books do not allow");
      }
    }
  }

 private:
  void begin() {
    epoch_ = Epoch(epoch_.value + 1);  // none comes twice
    coordinator::ReceiptPipeline pipeline = testing::receipt_pipeline(stages_);
    pipeline.epoch = epoch_;
    desk_.begin(std::move(pipeline));
  }
  template <typename Message>
  void say(const std::string& node, const std::string& bytes) {
    Message message;
    if (message.ParseFromString(bytes)) desk_.take(node, message);
  }
  std::string changed(std::string bytes) {
    const std::size_t at = input_.word();
    const auto bits = static_cast<char>(input_.byte());
    if (!bytes.empty())
      bytes[at % bytes.size()] = static_cast<char>(bytes[at % bytes.size()] ^ bits);
    return bytes;
  }

  void step() {
    const unsigned what = input_.byte();
    const unsigned whom = what >> 4;
    ReceiptStage& stage = stages_[whom % stages_.size()];
    coordinator::ReceiptRequest request =
        testing::receipt_request(static_cast<unsigned char>(whom / stages_.size()));
    request.epoch = epoch_;
    switch (what % 16) {
      case 0: return say<control::v1::WindowClaims>(stage.node, input_.bytes(input_.word()));
      case 1: return say<control::v1::Receipts>(stage.node, input_.bytes(input_.word()));
      case 2:
        return say<control::v1::WindowClaims>(stage.node,
                                              changed(stage.claim(request).SerializeAsString()));
      case 3: {
        // Of windows that it has claimed itself.
        const control::v1::Countersign asked = std::exchange(asked_[stage.node], {});
        return say<control::v1::Receipts>(stage.node,
                                          changed(stage.sign(asked).SerializeAsString()));
      }
      case 4: return desk_.start(request.epoch, request.order.request, request.tokens.size());
      case 5: return desk_.over(request);
      case 6: return desk_.lose(stage.node);
      case 7: desk_.end(request.epoch); return begin();
      case 8: clock_.seconds += 60; return desk_.on_timer();
      default: return;
    }
  }

  Input input_;
  Epoch epoch_{4};
  PlayedClock clock_;
  std::vector<ReceiptStage> stages_ = testing::receipt_stages();
  ReceiptCollector desk_{testing::receipt_cluster(), clock_};
  ledger::Books books_;
  std::map<std::string, control::v1::Countersign> asked_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spdlog::set_level(spdlog::level::off);  // a refusal is a line in the log
  constexpr std::size_t kLongest = 1024;  // signatures take their time
  Play(Input(data, std::min(size, kLongest))).run();
  return 0;
}
