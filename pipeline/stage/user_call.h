// Around the calls of users' functions: the time they take, and the elements made of what they return.
#pragma once

#include <chrono>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/engine/stage_counter.h>

namespace penstock::stage {

/// Adds the time until its end of scope to a stage's time.
class UserCall {
 public:
  explicit UserCall(engine::StageCounter& counter) : counter_(counter), begin_(std::chrono::steady_clock::now()) {}
  UserCall(const UserCall&) = delete;
  UserCall& operator=(const UserCall&) = delete;
  ~UserCall() { counter_.add(0, std::chrono::steady_clock::now() - begin_); }

 private:
  engine::StageCounter& counter_;
  std::chrono::steady_clock::time_point begin_;
};

/// Kind, lineage and origins of `of`, without its sample and its bytes.
engine::Element without_sample(const engine::Element& of);

/// The first of the samples that `of` was made from.
inline Origin first_origin(const engine::Element& of) { return of.origins.empty() ? Origin{} : of.origins.front(); }

/// Origins of each row of `made`, a batch that was made from the batch `from`; empty when that is none. A batch with
/// another number of rows than `from`: each may come from any of them.
std::vector<std::vector<Origin>> row_origins(const engine::Element& from, const Sample& made);

}  // namespace penstock::stage
