"""The API of adaptive-sdk: GraphQL at `/api/graphql`, with that SDK's types of graders and projects."""
