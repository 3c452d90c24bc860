// Invokes a function as Langfuse does, for each line of standard input, and prints what came of it.
import { createInterface } from "node:readline";
import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";

const [endpoint, secretAccessKey] = process.argv.slice(2);
const client = new LambdaClient({
  endpoint,
  region: "eu-central-1",
  credentials: { accessKeyId: "langfuse", secretAccessKey },
});

for await (const line of createInterface({ input: process.stdin })) {
  const { name, body } = JSON.parse(line);
  try {
    const answer = await client.send(
      new InvokeCommand({
        FunctionName: name,
        TenantId: "organization:project",
        InvocationType: "RequestResponse",
        Payload: Buffer.from(body),
      }),
    );
    console.log(JSON.stringify({ payload: JSON.parse(Buffer.from(answer.Payload).toString()) }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.name, message: error.message, attempts: error.$metadata?.attempts }));
  }
}
