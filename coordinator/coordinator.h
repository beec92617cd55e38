// Coordinator: which workers there are, which pipelines they form, and which sequences run. A
// state machine over the seams; the HTTP server and the gRPC service are adapters around it.
//
// Pipelines: whenever `stages` free workers are registered, they become one, layers split evenly,
// under a new epoch. A lost worker ends its pipeline: every sequence on it ends with one typed
// error, the other members become free, and the next full set forms a new pipeline. Several
// pipelines run side by side; a sequence goes to the one with the most free KV pages.
//
// Admission: FIFO over all waiting sequences. A sequence starts when every stage of its
// pipeline has pages for prompt + max_tokens; the reservation ends when the last stage reports
// the release, or with the pipeline.
//
// Threads: everything on the owner's thread. CoordinatorPort is the way in from other threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "proto/card_reading.h"
#include "proto/step.h"
#include "proto/transport.h"

namespace hearth::coordinator {

struct GenerateRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  bool report_hashes = false;
  // Nodes of which all its stages must be, which see activations; empty: any.
  std::vector<std::string> trust = {};
};

// What happens to one sequence, in order, on the owner's thread. After on_token with a `finish`
// other than kNone, or after on_error, nothing follows. kError inside a token becomes on_error.
class SequenceEvents {
 public:
  virtual ~SequenceEvents() = default;
  virtual void on_admitted() = 0;
  virtual void on_token(const SampledToken& token) = 0;
  // All hashes of the sequence, sorted by position then stage, before its last token.
  virtual void on_hashes(std::vector<RowHash> hashes) = 0;
  virtual void on_error(const Error& error) = 0;
};

struct NodeStatus {
  std::string name;
  std::string state;  // free, loading, serving, lost
  std::string data_address;
  std::uint32_t protocol = 0;  // that it and the coordinator speak with each other
  std::string isa;
  std::uint32_t threads = 0;
  std::uint64_t process_id = 0;
  std::string device;               // the card; empty: the processor
  std::optional<CardReading> card;  // where its sensors can be asked
  std::uint32_t layers_most = 0;    // that fit its memory; 0: it cannot say
  Epoch epoch;                      // 0: in no pipeline
  std::uint32_t stage = 0;
  LayerRange layers;
  std::uint32_t kv_pages = 0;
  std::uint64_t weight_bytes = 0;
  double weight_bytes_per_second = 0.0;
  std::uint64_t steps_total = 0;
  std::uint64_t rows_total = 0;
  double busy_seconds_total = 0.0;
  std::uint64_t kv_tokens_used = 0;    // positions with KV on this stage
  std::uint64_t ring_steps_total = 0;  // first stage: steps that came back round the ring,
  double ring_seconds_total = 0.0;     // and the time that they took together
  double rows_per_second = 0.0;        // positions computed, over the last seconds
  double busy_ratio = 0.0;             // share of these seconds in which it computed, 0 to 1
  double heartbeat_age_seconds = 0.0;
};

struct PipelineStatus {
  Epoch epoch;
  std::string state;               // forming, serving
  std::vector<std::string> nodes;  // by stage
  std::uint32_t running = 0;
  std::uint32_t kv_pages = 0;  // the smallest stage's
  std::uint32_t kv_pages_reserved = 0;
  std::uint32_t kv_page_tokens = 0;
};

struct SwarmStatus {
  bool ready = false;   // a prompt sent now would be answered
  std::string missing;  // else why not: which workers and layers, as a sentence
  // The stages of a pipeline for which no worker is here, unless one serves or forms. Who comes
  // gets the first of them.
  std::vector<LayerRange> uncovered;
  std::uint32_t stages_wanted = 0;
  std::vector<NodeStatus> nodes;
  std::vector<PipelineStatus> pipelines;
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint64_t admitted_total = 0;
  std::uint64_t finished_stop_total = 0;
  std::uint64_t finished_length_total = 0;
  std::uint64_t finished_error_total = 0;
  std::uint64_t cancelled_total = 0;
  std::uint64_t prompt_tokens_total = 0;
  std::uint64_t generation_tokens_total = 0;
  double tokens_per_second = 0.0;         // generated, over the last seconds
  double prompt_tokens_per_second = 0.0;  // of admitted sequences, likewise
};

struct CoordinatorOptions {
  std::string node = "coordinator";
  std::uint32_t stages = 1;       // workers of one pipeline
  std::string model_fingerprint;  // hex
  std::uint32_t layers = 0;
  StepShape shape;  // with_activations = false
  std::uint32_t canonical_version = 0;
  std::uint32_t batch_rows = 512;
  std::uint64_t first_epoch = 1;  // greater than any epoch of an earlier process
  Duration heartbeat = std::chrono::milliseconds(250);
  Duration heartbeat_timeout = std::chrono::milliseconds(1500);
  Duration forming_timeout = std::chrono::seconds(120);
};

class Coordinator {
 public:
  // `control` delivers workers' protobufs as kControl frames; `data` listens and dials.
  static std::unique_ptr<Coordinator> start(CoordinatorOptions options, const Clock& clock,
                                            Random& random, Transport& control, Transport& data);
  virtual ~Coordinator() = default;
  virtual void on_timer() = 0;  // at least every 50 ms

  // kUnavailable: no pipeline serves. kInvalidInput: breaks a range, or prompt + max_tokens passes
  // the context. kNoCapacity: more KV than any pipeline has in all (never fits), or the queue
  // holds limits::kWaitingSequences (the message says which). kRefused: every pipeline that serves
  // has a stage outside request.trust.
  virtual Result<SequenceId> submit(GenerateRequest request,
                                    std::shared_ptr<SequenceEvents> events) = 0;
  // Ends a sequence without further events. Unknown ids are ignored.
  virtual void cancel(SequenceId sequence) = 0;
  // Ends a sequence that its owner wants no token of from `position` on, for its text has ended.
  // One that reports hashes has one more event, on_hashes with those of the positions before that
  // have come in time. Unknown ids are ignored.
  virtual void stop(SequenceId sequence, Position position) = 0;
  virtual SwarmStatus status() const = 0;
  // Signed bytes (proto/roster.h) for every worker that is connected, and for those to come.
  virtual void publish_roster(Bytes roster) = 0;
};

// The way to a Coordinator from other threads; callbacks come on the owner's thread and must not
// block. Events that arrive after cancel() returns are dropped by the adapter's receiver.
class CoordinatorPort {
 public:
  virtual ~CoordinatorPort() = default;
  virtual void submit(GenerateRequest request, std::shared_ptr<SequenceEvents> events,
                      std::function<void(Result<SequenceId>)> done) = 0;
  virtual void cancel(SequenceId sequence) = 0;
  virtual void stop(SequenceId sequence, Position position) = 0;
  virtual void status(std::function<void(SwarmStatus)> done) = 0;
};

}  // namespace hearth::coordinator
