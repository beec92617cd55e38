// StageForward: the layers of one stage over the rows of one step, wherever they run. The engine
// does what is the same on every device (sequences, pages, hashes, sampling); this does the rest.
// Two implementations: Forward on the processor's cores, CardForward on an NVIDIA card.
//
// A step is begun and finished, in the order of the steps. Where steps may overlap, one may begin
// while the one before is under way; no more than kStepsUnderWay are. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "node/engine/kv_cache.h"
#include "node/engine/sampler.h"

namespace hearth::node {

struct ForwardRow {
  TokenId token = 0;
  Position position = 0;
  const BlockTable* pages = nullptr;  // holds at least position + 1 positions; the same for all
                                      // rows of a sequence, which stand together
  std::uint32_t state = 0;            // its sequence's, of states()
  bool sample = false;                // its logits are computed and handed on
  // For such a row, a stage that samples itself may return the token instead of the logits, or
  // before them if they are observed.
  const DrawRequest* draw = nullptr;
  bool observed = false;
  bool embedded = false;  // last stage: its residual in output() is read
};

inline constexpr std::uint32_t kStepsUnderWay = 2;  // each has buffers of its own
inline constexpr std::uint32_t kHeadRows = 32;      // sampled rows whose logits are held at once

class StageForward {
 public:
  virtual ~StageForward() = default;
  // Logits of row `row`, on thread `thread` of threads(); the span lasts as long as the call.
  using OnLogits =
      std::function<void(std::uint32_t row, unsigned thread, std::span<const float> logits)>;

  // The token of row `row`, as from Sampler::sample(); on the caller's thread.
  using OnToken = std::function<void(std::uint32_t row, const Result<TokenId>& token)>;

  struct Outputs {
    OnLogits on_logits;
    OnToken on_token;
  };

  // Whether a step that begins now need not wait for the steps under way.
  virtual bool may_overlap() const = 0;
  // Reads the rows in input(), except on the first stage. `rows` and their targets are read only
  // during the call. `outputs` must live until the step is finished; both halves call it. An Error,
  // here and from finish(), means that the device is lost: the steps under way are invalid, and
  // every later call returns the same error.
  virtual Status begin(std::span<const ForwardRow> rows, const Outputs& outputs) = 0;
  // Whether finish() of the oldest step would not wait, or is needed for that step to continue.
  virtual bool ready() const = 0;
  virtual Status finish() = 0;
  // Whether a row of the step finished last left the numeric range, which makes its output invalid.
  // Valid until the next step begins.
  virtual bool failed(std::uint32_t row) const = 0;
  // (batch_rows, hidden): the 16-bit residual of the computed rows, from row 0 on, as it comes into
  // the step that begins next, and as it leaves the step finished last, until the next one begins.
  // On a last stage, output() is valid only in steps with an embedded row.
  virtual std::uint16_t* input() = 0;
  virtual const std::uint16_t* output() const = 0;

  virtual PagePool& pages() = 0;
  virtual const PagePool& pages() const = 0;
  // One layer's share of a page, for kernels::kv_read; `layer` counts from the stage's first one
  // and has keys and values. Valid until the next call of any method.
  virtual Result<const std::byte*> page(std::uint32_t index, std::uint32_t layer) const = 0;

  // The states of sequences; null when no layer of the stage keeps one. A new sequence finds its
  // state as the last owner left it: the row at position 0 starts anew.
  virtual StatePool* states() = 0;
  // A sequence's state in one layer that keeps one. Valid until the next call of any method.
  virtual ByteSpan state(std::uint32_t state, std::uint32_t layer) const = 0;

  // Checks that the weights in memory equal the loaded ones, if that needs no second copy. kNumeric
  // names the tensor that differs.
  virtual Status verify_weights() { return ok_status(); }

  virtual unsigned threads() const = 0;
  virtual std::size_t weight_bytes() const = 0;
};

}  // namespace hearth::node
