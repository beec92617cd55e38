// A coordinator and a client that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/openai/json.h"
#include "coordinator/scheduling/verifiable.h"

namespace hearth::coordinator::http {

struct PlayedPort final : CoordinatorPort {
  // One sequence. `done` answers its submission; the port answers when all of a submission are.
  struct Submitted {
    GenerateRequest request;
    std::shared_ptr<SequenceEvents> events;
    std::function<void(Result<SequenceId>)> done;
  };
  void submit(std::vector<Submission> sequences, std::function<void(SubmitAnswer)> done) override {
    SubmitAnswer answer;
    answer.bounds = bounds(sequences.front().request.policy);
    for (Submission& one : sequences) {
      const std::size_t prompt = one.request.prompt.size();
      std::uint32_t& length = one.request.sampling.max_tokens;
      const std::uint64_t positions = answer.bounds.positions;
      if (one.request.may_shorten && prompt + length > positions) {
        length = static_cast<std::uint32_t>(positions - prompt);
      }
      answer.max_tokens.push_back(length);
      if (prompt + length <= positions) continue;
      answer.sequences = Error{ErrorCode::kNoCapacity, "it never fits"};
    }
    if (!answer.sequences.ok()) return done(std::move(answer));
    answer.sequences = std::vector<SequenceId>(sequences.size());
    auto pending =
        std::make_shared<std::pair<SubmitAnswer, std::size_t>>(std::move(answer), sequences.size());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto one = [pending, i, done](Result<SequenceId> result) {
        auto& [all, left] = *pending;
        if (!all.sequences.ok()) return;
        if (result.ok()) {
          (*all.sequences)[i] = *result;
        } else {
          all.sequences = result.error();
        }
        if (--left == 0 || !all.sequences.ok()) done(all);
      };
      submitted.push_back({std::move(sequences[i].request), std::move(sequences[i].events), one});
    }
  }
  RequestBounds bounds(const RequestPolicy& policy) const {
    RequestBounds out;
    out.positions = UINT32_MAX;
    std::uint32_t largest = 0;
    for (const PipelineStatus& one : swarm.pipelines) {
      if (may_use(policy, one)) largest = std::max(largest, one.kv_pages * one.kv_page_tokens);
    }
    if (largest > 0) out.positions = largest;
    out.serves = serves;
    const AuditMode mode = swarm.audits ? swarm.audits->mode : AuditMode::kOff;
    if (policy.verify != Verify::kNone) {
      out.unverifiable = why_unverifiable(mode, swarm.pipelines, policy);
    }
    out.running = swarm.running;
    out.waiting = swarm.waiting;
    out.tokens_per_second = swarm.tokens_per_second;
    return out;
  }
  void cancel(SequenceId sequence) override { cancelled.push_back(sequence.value); }
  void stop(SequenceId sequence, Position position) override {
    stopped.emplace_back(sequence.value, position);
  }
  void status(std::function<void(SwarmStatus)> done) override { done(swarm); }

  bool serves = true;  // a pipeline does; else what is submitted waits
  std::vector<Submitted> submitted;
  std::vector<std::uint64_t> cancelled;
  std::vector<std::pair<std::uint64_t, Position>> stopped;
  SwarmStatus swarm;
};

struct PlayedClient final : ResponseWriter {
  void respond(HttpResponse answer) override {
    EXPECT_FALSE(response || streaming) << "one answer only";
    response = std::move(answer);
  }
  void start_stream(StreamForm stream_form, HeaderFields fields) override {
    EXPECT_FALSE(response || streaming);
    form = stream_form;
    headers = std::move(fields);
    streaming = true;
  }
  void send(std::string_view event) override {
    EXPECT_TRUE(streaming && !finished);
    text += event;
  }
  void finish_stream(bool with_error) override {
    EXPECT_TRUE(streaming && !finished);
    finished = true;
    broken = with_error;
  }
  void on_gone(std::function<void()> callback) override { leave = std::move(callback); }
  bool gone() const override { return false; }

  // The JSON of every event but [DONE].
  std::vector<Json> events() {
    std::vector<Json> out;
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      std::string_view data = rest.substr(0, end);
      rest.remove_prefix(end + 2);
      if (data.starts_with("id: ")) {
        last_id = data.substr(4, data.find('\n') - 4);
        data.remove_prefix(data.find('\n') + 1);
      }
      data.remove_prefix(6);
      if (data != "[DONE]") out.push_back(Json::parse(data));
    }
    return out;
  }
  bool done() const { return text.ends_with("data: [DONE]\n\n"); }

  // Of all its choices, from the events.
  std::string content() {
    std::string out;
    for (const Json& event : events()) {
      for (const Json& choice : event.value("choices", Json::array())) {
        out += choice.contains("delta") ? choice["delta"].value("content", "")
                                        : choice.value("text", "");
      }
    }
    return out;
  }

  std::optional<HttpResponse> response;
  std::string text;
  std::string last_id;   // once events() was called
  HeaderFields headers;  // of the stream
  StreamForm form;
  bool streaming = false;
  bool finished = false;
  bool broken = false;
  std::function<void()> leave;
};

}  // namespace hearth::coordinator::http
