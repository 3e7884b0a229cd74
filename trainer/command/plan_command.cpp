// With --json, standard output has the object and nothing else.
#include <penstock/trainer/command/plan_command.h>

#include <iostream>

#include <penstock/trainer/command/exit_code.h>
#include <penstock/trainer/command/job.h>

namespace penstock::trainer::command {

int run_plan(const JobOptions& options) {
  const Job job = open_job(options, Purpose::kPlan);
  const gpu::MemoryPlan& plan = job.trainer.plan();
  std::ostream& people = options.common.json ? std::cerr : std::cout;
  people << job.settings;
  for (const std::string& notice : job.notices) people << notice << "\n";
  people << "\n" << plan.table() << std::flush;
  if (options.common.json) std::cout << plan_to_json(plan) << std::endl;
  if (plan.fits) return kDone;
  std::cerr << "penstock: " << plan.refusal << std::endl;
  return kPlanRefused;
}

}  // namespace penstock::trainer::command
