// A coordinator and a client that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/http/api/exchange.h"
#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {

struct PlayedPort final : CoordinatorPort {
  struct Submitted {
    GenerateRequest request;
    std::shared_ptr<SequenceEvents> events;
    std::function<void(Result<SequenceId>)> done;
  };
  void submit(GenerateRequest request, std::shared_ptr<SequenceEvents> events,
              std::function<void(Result<SequenceId>)> done) override {
    submitted.push_back({std::move(request), std::move(events), std::move(done)});
  }
  void cancel(SequenceId sequence) override { cancelled.push_back(sequence.value); }
  void stop(SequenceId sequence, Position position) override {
    stopped.emplace_back(sequence.value, position);
  }
  void status(std::function<void(SwarmStatus)> done) override { done(swarm); }

  std::vector<Submitted> submitted;
  std::vector<std::uint64_t> cancelled;
  std::vector<std::pair<std::uint64_t, Position>> stopped;
  SwarmStatus swarm;
};

struct PlayedClient final : Exchange {
  void respond(HttpResponse answer) override {
    EXPECT_FALSE(response || streaming) << "one answer only";
    response = std::move(answer);
  }
  void start_stream(HeaderFields fields) override {
    EXPECT_FALSE(response || streaming);
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
  bool streaming = false;
  bool finished = false;
  bool broken = false;
  std::function<void()> leave;
};

}  // namespace hearth::coordinator::http
