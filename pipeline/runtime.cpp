// A Runtime is a handle on the engine's state.
#include <penstock/pipeline/runtime.h>

#include <penstock/pipeline/engine/runtime_state.h>

namespace penstock {

Runtime::Runtime(const RuntimeOptions& options) : state_(std::make_shared<engine::RuntimeState>(options)) {}

std::size_t Runtime::threads() const noexcept { return state_->threads(); }
std::size_t Runtime::active_threads() const noexcept { return state_->gate().limit(); }
void Runtime::set_active_threads(std::size_t count) const noexcept { state_->set_active_threads(count); }
std::uint64_t Runtime::budget_bytes() const noexcept { return state_->budget()->limit(); }
std::uint64_t Runtime::in_flight_bytes() const noexcept { return state_->budget()->current(); }
std::uint64_t Runtime::peak_in_flight_bytes() const noexcept { return state_->budget()->peak(); }

}  // namespace penstock
